"""Promoting: composing a release, judging it, and moving the alias only if nothing has changed meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from registry.changes import Note, insert_event, insert_release, point_alias
from registry.database import reading, writing
from registry.errors import GateRefusal, NothingToApprove, NothingToRollBack, ReleaseRefused
from registry.evidence import approvers, signers
from registry.gate_sets import KeptGates, current_gates
from registry.gates import Case, GateReport
from registry.names import check_name, not_found
from registry.queries import (
    alias_names,
    current_release,
    events_of,
    release_stack,
    require_model,
    versions_by_number,
)
from registry.records import Event
from registry.releases import Candidate, check_integrity, compose
from registry.store import Store
from registry.stored import stored_bundle, stored_manifest


@dataclass(frozen=True)
class Judged:
    """What the gates said of a release, and what that rests on beside its bundles.

    Attributes:
        report: what they said.
        kept: the gates.
        approved_by: who had approved it.
    """

    report: GateReport
    kept: KeptGates
    approved_by: tuple[str, ...]


def candidate_for(engine: Engine, model: str, numbers: Sequence[int], alias: str) -> Candidate:
    """The release that promoting these versions would make.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: no version is named, or two for one subgroup.
    """
    check_name("alias", alias)
    with reading(engine) as connection:
        named = versions_by_number(connection, model, numbers)
        return compose(model, named, current_release(connection, model, alias))


def judge(engine: Engine, store: Store, candidate: Candidate, alias: str, promoter: str) -> Judged:
    """What the gates say of a candidate.

    Raises:
        ReleaseRefused: its versions cannot answer together.
        StoreError: a manifest is missing or was altered.
    """
    manifests = {version.number: stored_manifest(store, version) for version in candidate.versions}
    check_integrity(candidate, manifests)
    with reading(engine) as connection:
        kept = current_gates(connection, candidate.model)
        approved_by = approvers(connection, candidate, alias)
    signed_by = signers(engine, store, candidate.versions) if kept.gates.looks_at_signatures else {}
    # A release that cannot be read any more must not keep a better one out unless a gate looks at it.
    compared = candidate.before.versions if candidate.before and kept.gates.looks_at_running else ()
    case = Case(
        manifests=tuple(manifests.values()),
        running=tuple(stored_manifest(store, version) for version in compared),
        promoter=promoter,
        approved_by=approved_by,
        signed_by=signed_by,
        approve_with=f"dermfed-registry approve {candidate.model} "
        f"{' '.join(str(one.number) for one in candidate.named)} --to {alias}",
    )
    report = GateReport(results=kept.gates.judge(case), set_model=kept.model, set_number=kept.number)
    return Judged(report, kept, approved_by)


def promote(
    engine: Engine,
    store: Store,
    model: str,
    numbers: Sequence[int],
    alias: str,
    note: Note,
    *,
    override_gates: bool,
) -> Event | None:
    """Judges and releases, again where somebody else was faster; None where the alias points to it already.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: the versions do not make a release, or an override has no reason.
        GateRefusal: a gate refuses and is not overridden.
        StoreError: a version's file is missing or was altered.
    """
    check_name("alias", alias)
    if override_gates and note.reason is None:
        raise ReleaseRefused("overriding the gates needs a reason, which history keeps; add --reason TEXT")
    with reading(engine) as connection:
        named = versions_by_number(connection, model, numbers)
    for version in named:
        stored_bundle(store, version)  # what answers from now on must be whole
    while True:
        candidate = candidate_for(engine, model, numbers, alias)
        if candidate.changes_nothing:
            return None
        judged = judge(engine, store, candidate, alias, note.actor)
        report = judged.report
        if report.refused and not override_gates:
            raise GateRefusal(f"{candidate.named_as} cannot go to {alias}: {report.detail}", report)
        told = Note(note.actor, note.reason, report, overridden=report.refused)
        if (event := swap(engine, candidate, alias, judged, told)) is not None:
            return event


def swap(engine: Engine, candidate: Candidate, alias: str, judged: Judged, note: Note) -> Event | None:
    """Releases the candidate, unless the alias, the gates or its approvals are not those it was judged by."""
    model, before = candidate.model, candidate.before
    with writing(engine) as connection:
        if (
            current_release(connection, model, alias) != before
            or current_gates(connection, model) != judged.kept
            or approvers(connection, candidate, alias) != judged.approved_by
        ):
            return None
        release = insert_release(connection, model, candidate.versions)
        point_alias(connection, model, alias, release)
        return insert_event(
            connection,
            "promoted",
            model,
            note,
            versions=[version.number for version in candidate.named],
            alias=alias,
            release=release,
            before=None if before is None else before.id,
        )


def roll_back(engine: Engine, model: str, alias: str, note: Note) -> Event:
    """Makes the alias point to the release before the one it points to.

    Raises:
        NotFound: there is no such model or alias.
        NothingToRollBack: there is no release before it.
    """
    with writing(engine) as connection:
        require_model(connection, model)
        stack = release_stack(events_of(connection, model, alias))
        if not stack:
            raise not_found("alias", alias, alias_names(connection, model), of=f" of model {model!r}")
        if len(stack) == 1:
            raise NothingToRollBack(
                f"{alias} of {model} points to its first release, {stack[0]}; there is none before it. "
                "Promote another version instead"
            )
        before, release = stack[-1], stack[-2]
        point_alias(connection, model, alias, release)
        return insert_event(
            connection, "rolled-back", model, note, alias=alias, release=release, before=before
        )


def approve(
    engine: Engine, store: Store, model: str, numbers: Sequence[int], alias: str, note: Note
) -> Event:
    """Writes down that somebody stands for exactly this release.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: the versions do not make a release.
        NothingToApprove: the alias points to it already, or the same person has approved it.
        StoreError: a manifest is missing or was altered.
    """
    candidate = candidate_for(engine, model, numbers, alias)
    check_integrity(candidate, {one.number: stored_manifest(store, one) for one in candidate.versions})
    members = [
        {"number": one.number, "digest": one.digest, "subgroup": one.subgroup.name}
        for one in candidate.versions
    ]
    with writing(engine) as connection:
        if current_release(connection, model, alias) != candidate.before:
            raise NothingToApprove(
                f"{alias} of {model} has moved while {candidate.named_as} was looked at; look again and "
                "approve anew"
            )
        if candidate.changes_nothing:
            raise NothingToApprove(f"{alias} of {model} points to {candidate.named_as} already")
        if note.actor in approvers(connection, candidate, alias):
            raise NothingToApprove(
                f"{note.actor} has approved {candidate.named_as} for {alias} already; two approvals by one "
                "person are one"
            )
        return insert_event(
            connection,
            "approved",
            model,
            note,
            versions=[one.number for one in candidate.named],
            alias=alias,
            details={"candidate": candidate.digest(alias), "members": members},
        )

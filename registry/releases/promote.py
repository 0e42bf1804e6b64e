"""Promotion: composes a release, asks the gates, and moves the alias only if nothing changed meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from registry.bundle.manifest.schema import BundleManifest
from registry.database.changes import AuditContext, insert_event, insert_release, point_alias
from registry.database.connection import reading, writing
from registry.database.queries import (
    alias_names,
    current_release,
    events_of,
    release_stack,
    require_model,
    versions_by_number,
)
from registry.errors import GateRefusal, NothingToApprove, NothingToRollBack, ReleaseRefused, StoreError
from registry.gate_report import GateReport
from registry.gates import Case
from registry.names import check_name, not_found
from registry.records import Event
from registry.releases.compose import Candidate, check_integrity, compose
from registry.releases.gate_inputs import approvers, signers
from registry.releases.gate_sets import StoredGateSet, current_gates
from registry.releases.probe import probe_bytes
from registry.store.base import Store
from registry.store.bundles import stored_bundle, stored_manifest


@dataclass(frozen=True)
class GateEvaluation:
    """The gates' report on a candidate, and the inputs that must still hold when the alias moves.

    Attributes:
        report: the gates' report.
        gates: the gate set that was asked.
        approved_by: who had approved the candidate.
    """

    report: GateReport
    gates: StoredGateSet
    approved_by: tuple[str, ...]


def candidate_for(engine: Engine, model: str, numbers: Sequence[int], alias: str) -> Candidate:
    """The candidate that promoting these versions would make.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: no version is named, or two for one subgroup.
    """
    check_name("alias", alias)
    with reading(engine) as connection:
        named = versions_by_number(connection, model, numbers)
        return compose(model, named, current_release(connection, model, alias))


def judge(engine: Engine, store: Store, candidate: Candidate, alias: str, promoter: str) -> GateEvaluation:
    """Evaluates the gates in force on a candidate.

    Raises:
        ReleaseRefused: its versions cannot answer together.
        StoreError: a manifest of the candidate is missing or was altered.
    """
    manifests = {version.number: stored_manifest(store, version) for version in candidate.versions}
    check_integrity(candidate, manifests)
    with reading(engine) as connection:
        gates = current_gates(connection, candidate.model)
        approved_by = approvers(connection, candidate, alias)
    signed_by = signers(engine, store, candidate.versions) if gates.gates.looks_at_signatures else {}
    # A release that cannot be read any more must not keep a better one out: a gate that looks at it refuses,
    # which can be overridden.
    compared = candidate.before.versions if candidate.before and gates.gates.looks_at_running else ()
    running: tuple[BundleManifest, ...] = ()
    unreadable = ""
    try:
        running = tuple(stored_manifest(store, version) for version in compared)
    except StoreError as error:
        unreadable = str(error)
    case = Case(
        manifests=tuple(manifests.values()),
        running=running,
        unreadable=unreadable,
        promoter=promoter,
        approved_by=approved_by,
        signed_by=signed_by,
        approve_with=f"dermfed-registry approve {candidate.model} "
        f"{' '.join(str(one.number) for one in candidate.named)} --to {alias}",
    )
    report = GateReport(results=gates.gates.judge(case), set_model=gates.model, set_number=gates.number)
    return GateEvaluation(report, gates, approved_by)


def promote(
    engine: Engine,
    store: Store,
    model: str,
    numbers: Sequence[int],
    alias: str,
    context: AuditContext,
    *,
    override_gates: bool,
) -> Event | None:
    """Judges and promotes, and retries where the alias moved meanwhile; None where it changes nothing.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: the versions do not make a release, or an override has no reason.
        GateRefusal: a gate refuses and is not overridden.
        BundleRefused: the model of a named version does not load or misbehaves; nothing overrides this.
        StoreError: a version's file is missing or was altered.
    """
    check_name("alias", alias)
    if override_gates and context.reason is None:
        raise ReleaseRefused("overriding the gates needs a reason, which history keeps; add --reason TEXT")
    with reading(engine) as connection:
        named = versions_by_number(connection, model, numbers)
    for version in named:
        bundle = stored_bundle(store, version)  # what answers from now on must be whole, and answer here
        probe_bytes(bundle.model, bundle.manifest, f"version {version.number} of {model}")
    while True:
        candidate = candidate_for(engine, model, numbers, alias)
        if candidate.changes_nothing:
            return None
        evaluation = judge(engine, store, candidate, alias, context.actor)
        report = evaluation.report
        if report.refused and not override_gates:
            raise GateRefusal(f"{candidate.title} cannot go to {alias}: {report.detail}", report)
        outcome = AuditContext(context.actor, context.reason, report, overridden=report.refused)
        if (event := swap(engine, candidate, alias, evaluation, outcome)) is not None:
            return event


def swap(
    engine: Engine, candidate: Candidate, alias: str, evaluation: GateEvaluation, context: AuditContext
) -> Event | None:
    """Moves the alias to the candidate, unless alias, gates or approvals changed since it was judged."""
    model, before = candidate.model, candidate.before
    with writing(engine) as connection:
        if (
            current_release(connection, model, alias) != before
            or current_gates(connection, model) != evaluation.gates
            or approvers(connection, candidate, alias) != evaluation.approved_by
        ):
            return None
        release = insert_release(connection, model, candidate.versions)
        point_alias(connection, model, alias, release)
        return insert_event(
            connection,
            "promoted",
            model,
            context,
            versions=[version.number for version in candidate.named],
            alias=alias,
            release=release,
            before=None if before is None else before.id,
        )


def roll_back(engine: Engine, model: str, alias: str, context: AuditContext) -> Event:
    """Rolls an alias back to the release before the one it points to.

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
            connection, "rolled-back", model, context, alias=alias, release=release, before=before
        )


def approve(
    engine: Engine, store: Store, model: str, numbers: Sequence[int], alias: str, context: AuditContext
) -> Event:
    """Records the approval of exactly the release that this promotion would make.

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
                f"{alias} of {model} has moved while {candidate.title} was looked at; look again and "
                "approve anew"
            )
        if candidate.changes_nothing:
            raise NothingToApprove(f"{alias} of {model} points to {candidate.title} already")
        if context.actor in approvers(connection, candidate, alias):
            raise NothingToApprove(
                f"{context.actor} has approved {candidate.title} for {alias} already; two approvals by one "
                "person are one"
            )
        return insert_event(
            connection,
            "approved",
            model,
            context,
            versions=[one.number for one in candidate.named],
            alias=alias,
            details={"candidate": candidate.digest(alias), "members": members},
        )

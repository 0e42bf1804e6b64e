"""Promotion: composes a release, asks the gates, and moves the alias only if nothing changed meanwhile.

A promotion holds for the release that it was compared with: where the alias points to another one by then, it
is refused with the new comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine

from registry.bundle.manifest import BundleManifest
from registry.database.changes import AuditContext, insert_release, move_alias
from registry.database.connection import reading, writing
from registry.database.queries import (
    acting_person,
    current_release,
    gate_events,
    release_by_id,
    require_model,
    running_canary,
    stated_prevalence,
    versions_by_number,
)
from registry.errors import (
    AliasMoved,
    DatabaseError,
    GateRefusal,
    InvalidName,
    NotFound,
    NothingToApprove,
    ReleaseRefused,
    StoreError,
)
from registry.gate_report import Comparison, GateReport
from registry.gates import Case
from registry.gates.approval import ApprovalsGate
from registry.gates.gate import SubgroupOutcomes
from registry.gates.gate_set import let_through
from registry.names import check_name
from registry.people import approvals_of, require_approved
from registry.people import approve as record_approval
from registry.records import Event
from registry.releases.compare import compare_releases
from registry.releases.compose import (
    Candidate,
    check_integrity,
    check_prevalence,
    compose,
    measurers,
    outcomes_by_version,
    signers,
)
from registry.releases.gate_sets import StoredGateSet, current_gates
from registry.releases.labels import refuse_withdrawn, shared_files
from registry.releases.probe import probe_model
from registry.releases.rollback import alias_moved, release_number, required_release
from registry.releases.rollout import Share, check_share, runs_as_asked, start
from registry.store import Store
from registry.stored_bundles import stored_manifest, stored_model


@dataclass(frozen=True)
class Judged:
    """A candidate with the gates' report on it, and the inputs that must still hold when the alias moves.

    Attributes:
        candidate: the release that would result.
        gates: the gate set that was asked.
        approvals: who had approved the candidate: names by the fingerprints of their keys.
        comparison: the candidate next to the release that runs, with the gates' report.
        manifests: of the candidate, by the versions' numbers.
    """

    candidate: Candidate
    gates: StoredGateSet
    approvals: Mapping[str, str]
    comparison: Comparison
    manifests: Mapping[int, BundleManifest]


@dataclass(frozen=True)
class Promotion:
    """What came of a promotion.

    Attributes:
        event: the event; None where the alias points to exactly this already.
        comparison: the new release compared with the one that it replaced; None where nothing changed.
    """

    event: Event | None
    comparison: Comparison | None


def candidate_for(
    engine: Engine,
    model: str,
    numbers: Sequence[int],
    alias: str,
    without: Sequence[str] = (),
    prevalence: Mapping[str, float] | None = None,
) -> Candidate:
    """The candidate that promoting these versions, and leaving out those of some subgroups, would make.

    A prevalence that is not stated is that of the release before.

    Raises:
        InvalidName: a prevalence is no share.
        NotFound: there is no such model or version, or a subgroup without one of its own.
        ReleaseRefused: no version is named, or two for one subgroup.
    """
    check_name("alias", alias)
    check_prevalence(prevalence or {})
    with reading(engine) as connection:
        require_model(connection, model)
        named = versions_by_number(connection, model, numbers)
        refuse_withdrawn(connection, named)
        before = current_release(connection, model, alias)
        known = {} if before is None else stated_prevalence(connection, model, before.id)
        stated = known if prevalence is None else dict(prevalence)
        composed = compose(model, alias, named, before, without)
        return replace(composed, prevalence=stated, prevalence_before=known)


def judge(
    engine: Engine,
    store: Store,
    candidate: Candidate,
    promoter: tuple[str, str],
    approved: Mapping[str, str] | None = None,
) -> Judged:
    """Asks the gates in force about a candidate, and compares it with the release that runs.

    Args:
        engine: of the database.
        store: of objects.
        candidate: the release.
        promoter: the name and the fingerprint of who promotes; the latter empty where it is not signed.
        approved: who has approved it, where that was earlier.

    Raises:
        ReleaseRefused: its versions cannot answer together.
        StoreError: a manifest of the candidate is missing or was altered.
    """
    model, alias, before = candidate.model, candidate.alias, candidate.before
    manifests = {version.number: stored_manifest(store, version) for version in candidate.versions}
    check_integrity(candidate, manifests)
    with reading(engine) as connection:
        gates = current_gates(connection, model, alias)
        action = candidate.approval(connection)
        approved = approvals_of(connection, action) if approved is None else approved
        warnings = list(shared_files(connection, candidate.versions))
        passed = before and let_through(gate_events(connection, model, alias, before.id), before.id, alias)
        if passed and passed.differs:
            warnings.insert(0, passed.sentence)
    # A release that cannot be read any more must not keep a better one out: a gate that looks at it refuses,
    # which can be overridden.
    running: dict[int, BundleManifest] = {}
    unreadable = ""
    try:
        running = {one.number: stored_manifest(store, one) for one in (before.versions if before else ())}
    except StoreError as error:
        unreadable = str(error)

    def manifest_of(number: int) -> BundleManifest | None:
        return manifests.get(number) or running.get(number) or _manifest_of(engine, store, model, number)

    needs, outcomes_unreadable = gates.gates.needs, ""
    outcomes: Mapping[int, tuple[SubgroupOutcomes, ...]] = {}
    if "outcomes" in needs:
        try:
            outcomes = outcomes_by_version(engine, model, {**running, **manifests}, manifest_of)
        except (DatabaseError, InvalidName) as error:
            outcomes_unreadable = str(error)
    results = gates.gates.judge(
        Case(
            manifests=tuple(manifests.values()),
            running=tuple(running.values()),
            unreadable=unreadable,
            promoter=promoter[0],
            promoter_key=promoter[1],
            approvals=approved,
            signed_by=signers(engine, store, candidate.versions) if "signatures" in needs else {},
            metrics_signed_by=(measurers(list(manifests.values())) if "metrics_signatures" in needs else {}),
            outcomes={one.subgroup.name: outcomes.get(number, ()) for number, one in manifests.items()},
            running_outcomes={one.subgroup.name: outcomes.get(number, ()) for number, one in running.items()},
            outcomes_unreadable=outcomes_unreadable,
            approve_with=action.command,
        )
    )
    report = GateReport(
        results=results, set_model=gates.model, set_number=gates.number, set_alias=gates.alias
    )
    comparison = compare_releases(
        candidate, manifests, running, report, unreadable=unreadable, warnings=warnings
    )
    return Judged(candidate, gates, approved, comparison, manifests)


def _manifest_of(engine: Engine, store: Store, model: str, number: int) -> BundleManifest | None:
    """The manifest of a version; None where there is no such version, or it cannot be read."""
    try:
        with reading(engine) as connection:
            (version,) = versions_by_number(connection, model, [number])
        return stored_manifest(store, version)
    except (NotFound, StoreError):
        return None


def judge_again(engine: Engine, store: Store, model: str, alias: str) -> GateReport:
    """What the gates in force now say of the release that runs, as if it were promoted over the one before.

    Those who had approved it then count as having approved it, for the person who promoted it.

    Raises:
        NotFound: there is no such model or alias.
        GateSetInvalid: a gate cannot be asked.
        StoreError: a manifest is missing or was altered.
    """
    with reading(engine) as connection:
        release = required_release(connection, model, alias)
        promoted = [
            one for one in gate_events(connection, model, alias, release.id) if one.kind == "promoted"
        ]
        before = promoted[-1].before if promoted else None
        replaced = None if before is None else release_by_id(connection, before)
        prevalence, known = (
            {} if one is None else stated_prevalence(connection, model, one.id) for one in (release, replaced)
        )
    versions = release.versions
    candidate = Candidate(model, alias, versions, replaced, versions, (), prevalence, known)
    if not promoted:
        return judge(engine, store, candidate, ("", "")).comparison.report
    with reading(engine) as connection:
        action = candidate.approval(connection, before=promoted[-1].id)
        approved = approvals_of(connection, action, before=promoted[-1].id)
    promoter = (promoted[-1].actor, promoted[-1].signed_with or "")
    return judge(engine, store, candidate, promoter, approved).comparison.report


def promote(
    engine: Engine,
    store: Store,
    model: str,
    numbers: Sequence[int],
    alias: str,
    context: AuditContext,
    *,
    override_gates: bool = False,
    without: Sequence[str] = (),
    share: Share | None = None,
    expect: int | None = None,
    prevalence: Mapping[str, float] | None = None,
) -> Promotion:
    """Judges and promotes, and judges again where gates or approvals changed; with a share, as a canary.

    Raises:
        AliasMoved: the alias points to another release than `expect`, by default the one at the beginning.
        ApprovalsMissing: the gate set asks for approvals, and fewer have approved the override.
        InvalidName: a prevalence is no share.
        NotFound: there is no such model or version, or a subgroup without one of its own.
        ReleaseRefused: the versions do not make a release, or an override has no reason.
        GateRefusal: a gate refuses and is not overridden.
        BundleRefused: the model of a named version does not load or misbehaves; nothing overrides this.
        StoreError: a version's file is missing or was altered.
    """
    check_name("alias", alias)
    if override_gates:
        context.require_reason("overriding the gates")
    with reading(engine) as connection:
        acting_person(connection, "promoted", context.signatory)
        named = versions_by_number(connection, model, numbers)
        expected = release_number(current_release(connection, model, alias)) if expect is None else expect
    for version in named:
        # What answers from now on must be whole, and answer here.
        with stored_model(store, version) as (manifest, path):
            probe_model(path, manifest, f"version {version.number} of {model}")
    while True:
        candidate = candidate_for(engine, model, numbers, alias, without, prevalence)
        moved = release_number(candidate.before) != expected
        if candidate.changes_nothing and share is None and not (moved and expect is not None):
            return Promotion(None, None)
        judged = judge(engine, store, candidate, (context.actor, context.key))
        report, comparison = judged.comparison.report, judged.comparison
        if share is not None:
            check_share(candidate, judged.manifests, share)
            with reading(engine) as connection:
                if runs_as_asked(connection, candidate, share):
                    return Promotion(None, None)
        if moved:
            detail = alias_moved(model, alias, expected, candidate.before)
            raise AliasMoved(f"{candidate.title} was not promoted: {detail}", report, comparison)
        if report.refused and not override_gates:
            detail = f"{candidate.title} cannot go to {alias}: {report.detail}"
            raise GateRefusal(detail, report, comparison)
        outcome = replace(context, gates=report, overridden=report.refused)
        if (event := swap(engine, judged, outcome, share)) is not None:
            return Promotion(event, comparison)


def swap(engine: Engine, judged: Judged, context: AuditContext, share: Share | None = None) -> Event | None:
    """Moves the alias to the candidate, unless alias, gates or approvals changed since it was judged.

    With a share, the alias stays where it is, and the candidate is its canary.

    Raises:
        ApprovalsMissing: the gates are overridden, and fewer have approved that than their set asks for.
    """
    candidate = judged.candidate
    model, alias, before = candidate.model, candidate.alias, candidate.before
    with writing(engine) as connection:
        if (
            current_release(connection, model, alias) != before
            or current_gates(connection, model, alias) != judged.gates
            or approvals_of(connection, candidate.approval(connection)) != judged.approvals
        ):
            return None
        refuse_withdrawn(connection, candidate.versions)
        details: dict[str, Any] = _left_out(candidate)
        if candidate.prevalence:
            details["prevalence"] = dict(candidate.prevalence)
        if context.overridden:
            gates = {
                str(judged.gates): gate
                for gate in judged.gates.gates.gates
                if isinstance(gate, ApprovalsGate)
            }
            action = candidate.approval(connection, over_gates=True)
            details |= require_approved(connection, action, gates, context)
        if context.reason is None and (shared := shared_files(connection, candidate.named)):
            raise ReleaseRefused(
                f"{'; '.join(shared)}. To promote it all the same, say why with --reason TEXT, which history "
                "keeps"
            )
        if share is not None:
            return start(connection, candidate, share, context, details)
        return move_alias(
            connection,
            "promoted",
            model,
            alias,
            context,
            to=insert_release(connection, model, candidate.versions),
            before=None if before is None else before.id,
            canary=running_canary(connection, model, alias),
            versions=[version.number for version in candidate.named],
            details=details,
        )


def approve(
    engine: Engine,
    store: Store,
    model: str,
    numbers: Sequence[int],
    alias: str,
    context: AuditContext,
    without: Sequence[str] = (),
    *,
    over_gates: bool = False,
    prevalence: Mapping[str, float] | None = None,
) -> Event:
    """Records the approval of exactly the release that this promotion would make.

    With `over_gates`, of promoting it although gates refuse.

    Raises:
        NotFound: there is no such model or version.
        ReleaseRefused: the versions do not make a release.
        NothingToApprove: the alias points to it already, or the same person has approved it.
        StoreError: a manifest is missing or was altered.
    """
    candidate = candidate_for(engine, model, numbers, alias, without, prevalence)
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
        refuse_withdrawn(connection, candidate.versions)
        if candidate.changes_nothing:
            raise NothingToApprove(f"{alias} of {model} points to {candidate.title} already")
        details = {
            "members": members,
            **_left_out(candidate),
            **({"prevalence": dict(candidate.prevalence)} if candidate.states_prevalence else {}),
            **({"over_gates": True} if over_gates else {}),
        }
        action = candidate.approval(connection, over_gates=over_gates)
        return record_approval(connection, context, action, details, [one.number for one in candidate.named])


def _left_out(candidate: Candidate) -> dict[str, list[str]]:
    """The subgroups that lose their version, for the event, where there are any."""
    return {"without": list(candidate.without)} if candidate.without else {}

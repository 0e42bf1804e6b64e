"""What whoever runs the service has to see: the release, its fairness, what was done, and what comes in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from registry.gates.gate_set import let_through
from registry.outcomes.metrics import Share, SubgroupReport
from registry.records import Event
from registry.views.card import standing
from registry.views.card_page import by_subgroup, key_figures, measured
from registry.views.records import event_lines
from registry.views.tables import Table
from serving.monitoring.drift import EVERYBODY, DriftRow
from serving.monitoring.field import FieldView, shares_of
from serving.protocol.schemas import ServedModel
from serving.releases.current_release import LoadedRelease, ServedRelease
from serving.releases.loading import card
from serving.releases.rollout import ShadowRow
from serving.web.attention import attention, is_overridden
from serving.web.reliability import points, reliability
from serving.web.rendering import render

SIDE = 200.0
"""Of the square in which a reliability diagram is drawn; units of its own."""

NEWEST = 20
"""Events of a model that are shown."""


@dataclass(frozen=True)
class Seen:
    """What is known at one moment.

    Attributes:
        state: what is served.
        served: the same as the interface lists it, by model.
        history: what was done to each model, the oldest first.
        forged: events that say to be signed and are not, by model; None where they cannot be checked.
        troubles: what keeps something from working.
        drift: what came in beside what was tested on.
        decisions: how often each triage and each decision was given, by model, version and subgroup.
        shadow: candidates beside what is served.
        answering: the events of canaries that answer; others of `state` are held back.
        field: what the last look at the field has found; None where no answers are kept, or before it.
    """

    state: ServedRelease
    served: Mapping[str, ServedModel]
    history: Mapping[str, Sequence[Event]]
    forged: Mapping[str, frozenset[int] | None]
    troubles: Sequence[str]
    drift: Sequence[DriftRow]
    decisions: Mapping[tuple[str, int, str], Mapping[str, int]]
    shadow: Sequence[ShadowRow]
    answering: frozenset[int] = frozenset()
    field: FieldView | None = None


def operator_page(seen: Seen) -> str:
    """The page."""
    field = seen.field
    return render(
        "operator.html",
        here="operator",
        standing=attention(
            seen.state,
            seen.troubles,
            seen.history,
            seen.forged,
            seen.drift,
            () if field is None else [(name, one) for name, of in field.models.items() for one in of.alarms],
        ),
        field=field,
        models=[_model(name, release, seen) for name, release in sorted(seen.state.releases.items())],
        side=SIDE,
    )


def _model(name: str, release: LoadedRelease, seen: Seen) -> dict[str, Any]:
    history, canary = seen.history.get(name, ()), seen.state.canaries.get(name)
    said = card(release, seen.served[name].alias).model_dump(mode="json")
    versions = said["versions"]
    pointed = next((one for one in reversed(history) if one.release == release.release.id), None)
    return {
        "name": name,
        "served": seen.served[name],
        "since": pointed,
        "canary": canary,
        "canary_answers": canary is not None and canary.event in seen.answering,
        "overridden": is_overridden(release, history),
        "let_through": let_through(history, release.release.id, seen.served[name].alias),
        "standing": standing(said),
        "key": key_figures(versions),
        "fairness": fairness_tables(versions),
        "reliability": [
            {"name": subgroup, "version": one.version.number, "points": points(marks, SIDE)}
            for subgroup, one in release.versions.items()
            if one.manifest.reference is not None and (marks := reliability(one.manifest.reference))
        ],
        "events": [
            event_lines(event, seen.forged.get(name)).splitlines() for event in reversed(history[-NEWEST:])
        ],
        "older": max(len(history) - NEWEST, 0),
        "drift": told_once([row for row in seen.drift if row.model == name]),
        "decisions": [
            (version, subgroup, counts, sum(counts.get(one, 0) for one in ("report", "refer", "retake")))
            for (model, version, subgroup), counts in sorted(seen.decisions.items())
            if model == name
        ],
        "shadow": [row for row in seen.shadow if row.model == name],
        "field": field_rows(name, release, seen.field),
        "alarms": seen.field.of(name).alarms if seen.field else [],
    }


def fairness_tables(versions: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Each version's figures by skin tone, as its card shows them."""
    named = [
        (f"version {one['version']}, {one['subgroup']['name']} (figures: {measured(one)})", table)
        for one in versions
        if (table := by_subgroup(one)).rows
    ]
    return [
        replace(table, key=f"fair-{place}", caption=f"{table.caption}: {name}")
        for place, (name, table) in enumerate(named, start=1)
    ]


def field_rows(
    name: str, release: LoadedRelease, field: FieldView | None
) -> list[tuple[SubgroupReport, dict[tuple[str, str], Share]]]:
    """Metrics of the field, those of versions that answer now first."""
    now = {one.version.number for one in release.versions.values()}
    reports = field.of(name).reports if field else ()
    ordered = sorted(reports, key=lambda row: (row.version not in now, row.subgroup, -row.version))
    return [(row, shares_of(row)) for row in ordered]


def told_once(rows: Sequence[DriftRow]) -> list[DriftRow]:
    """Without the rows of everybody together, where everybody is of one subgroup."""
    subgroups = Counter((row.version, row.measure) for row in rows)
    return [row for row in rows if row.subgroup != EVERYBODY or subgroups[row.version, row.measure] > 2]

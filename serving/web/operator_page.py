"""Pages for operators.

**The operator's page**: the release, its fairness, its history, and the pictures that come in.

First comes what needs the operator's attention: health, then overridden gates, then drift. A reliability
diagram shows how often answers of a confidence were right: a calibrated model lies on the diagonal. It shows
bins with enough test pictures; each mark carries the 95 % interval of its share (Wilson),
so that a few pictures do not look like a fault.

**The console**: what a promotion would change, the command that does it, and what was done to the model.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from registry.bundle.counts import ScoreHistograms
from registry.bundle.errors import BundleError
from registry.bundle.labels import GLOBAL
from registry.bundle.metrics.intervals import mean_interval
from registry.bundle.score_bins import LOGIT_BINS
from registry.errors import RegistryError
from registry.gate_report import set_title
from registry.gates.gate_set import let_through
from registry.outcomes.metrics import Share, SubgroupReport
from registry.records import Event, Release, Version
from registry.registry import Registry
from registry.views.card import Matter, SiteStatus, standing
from registry.views.card_page import by_subgroup, key_figures, measured
from registry.views.records import NOT_SIGNED, OVERRIDDEN, event_lines, event_view
from registry.views.tables import Table
from serving.monitoring.drift import EVERYBODY, DriftRow
from serving.monitoring.field import FieldView, shares_of
from serving.protocol.documents import ServedModel
from serving.releases.current_release import ServedRelease
from serving.releases.loading import LoadedRelease, card
from serving.releases.rollout import ShadowRow
from serving.web.rendering import render


def attention(seen: "Seen") -> SiteStatus:
    """What needs the operator's attention, the worst first."""
    return SiteStatus(tuple(_matters(seen)))


def _matters(seen: "Seen") -> Iterator[Matter]:
    state = seen.state
    for text in seen.troubles:  # as the log has it, so that it is found there
        yield Matter(text if text.endswith(".") else f"{text}.", "The service’s log tells more.", wrong=True)
    silenced = {name: said for name, said in state.silenced.items() if name not in state.releases}
    for _, said in sorted(silenced.items()):
        yield Matter(f"{said}.", "Promote a version, or go back to an earlier release.", wrong=True)
    if not state.releases and not silenced:
        yield Matter(
            "No model has been promoted.",
            "Nobody is answered until you do: `dermfed-registry promote MODEL VERSION --to ALIAS`.",
            wrong=True,
        )
    for model, of in seen.field.models.items() if seen.field else ():
        for alarm in of.alarms:
            number = "" if alarm.number is None else f" (alarm {alarm.number})"
            yield Matter(
                f"Of {model}, {alarm.said}{number}.",
                "Look at its figures in the field, go back to the release before, or close the alarm with a "
                f"reason: `dermfed-registry field {model}`.",
                wrong=True,
            )
    for model, events in sorted(seen.forged.items()):
        if events:
            yield Matter(
                f"History of {model} has events that say to be signed and are not.",
                "Run `dermfed-registry verify`, and find out who wrote them.",
                wrong=True,
            )
    for name, release in sorted(state.releases.items()):
        if is_overridden(release, seen.history.get(name, ())):
            yield Matter(
                f"A gate had refused release {release.release.id} of {name} and was overridden.",
                "Read its card, and go back if nobody can say why: `dermfed-registry rollback`.",
            )
    drifted = [row for row in seen.drift if row.verdict == "drifted"]
    for model in sorted({row.model for row in drifted}):
        where = sorted({f"{row.measure} ({row.subgroup})" for row in drifted if row.model == model})
        yield Matter(
            f"What comes in for {model} is not what it was tested on: {', '.join(where)}.",
            "Look at the pictures that come in, and at whom the model was tested on.",
        )


def is_overridden(release: LoadedRelease, history: Sequence[Event]) -> bool:
    """Whether a gate had refused a release and was overridden.

    Of whichever event made it: a rollback to it does not undo that.
    """
    return any(one.overridden for one in history if one.release == release.release.id)


BINS = 10
LEAST = 10
"""Test pictures that a bin must have to be drawn."""


@dataclass(frozen=True)
class Mark:
    """One bin.

    Attributes:
        confidence: the mean confidence in it.
        right: the share that was right, with its interval.
        n: test pictures in it.
    """

    confidence: float
    right: float
    interval: tuple[float, float]
    n: int


def reliability(histograms: ScoreHistograms) -> list[Mark]:
    """The bins with enough pictures, by confidence; none where the bundle does not tell what was right."""
    if histograms.right is None:
        return []
    all_, right = np.array(histograms.confidence), np.array(histograms.right)
    middles = LOGIT_BINS.middles
    tenths = (middles * BINS).astype(int)
    marks = []
    for place in (tenths == tenth for tenth in range(BINS)):
        n, k = int(all_[place].sum()), int(right[place].sum())
        if n >= LEAST:
            low, high = mean_interval(np.array([k]), np.array([n]))
            mean = float((all_[place] * middles[place]).sum() / n)
            marks.append(Mark(mean, k / n, (low, high), n))
    return marks


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
        drift: the pictures that came in, compared with those tested on.
        decisions: how often each triage and each decision was given, by model, version and subgroup.
        shadow: candidates, compared with what is served.
        answering: the events of active canaries; other canaries in `state` are held back.
        field: the last result of post-deployment monitoring; None before it, or where no answers are kept.
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
    return render(
        "operator.html",
        here="operator",
        standing=attention(seen),
        field=seen.field,
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
            {"name": subgroup, "version": one.version.number, "marks": marks}
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
    named = {
        f"version {one['version']}, {one['subgroup']['name']} (figures: {measured(one)})": by_subgroup(one)
        for one in versions
    }
    return [replace(table, caption=f"{table.caption}: {name}") for name, table in named.items() if table]


def field_rows(
    name: str, release: LoadedRelease, field: FieldView | None
) -> list[tuple[SubgroupReport, dict[tuple[str, str], Share]]]:
    """Metrics of the field, those of versions that answer now first."""
    now = {one.version.number for one in release.versions.values()}
    reports = field.of(name).reports if field else ()
    ordered = sorted(reports, key=lambda row: (row.version not in now, row.subgroup, -row.version))
    return [(row, shares_of(row)) for row in ordered]


def told_once(rows: Sequence[DriftRow]) -> list[DriftRow]:
    """Drop the overall rows where all pictures are of one subgroup, whose rows say the same."""
    subgroups = Counter((row.version, row.measure) for row in rows)
    return [row for row in rows if row.subgroup != EVERYBODY or subgroups[row.version, row.measure] > 2]


MANY: Final = 100
"""Versions of one subgroup that can be chosen, those that were added last."""

LONGEST: Final = 10
"""Digits of a version's number; more are none that a registry has given out."""

WITHOUT: Final = "without:"
"""How a choice begins that leaves a subgroup without a version of its own."""


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes:
        model: the model's name; None where there is none.
        alias: under which alias.
        versions: the versions named.
        without: subgroups that are to have no version of their own.
    """

    model: str | None
    alias: str
    versions: tuple[int, ...] = ()
    without: tuple[str, ...] = ()


def read_choice(
    query: Sequence[tuple[str, str]], models: Sequence[str], default_model: str | None, default_alias: str
) -> Choice:
    """The choice in an address; what is not understood in it is left out, and so shown as not chosen."""
    given: dict[str, list[str]] = {}
    for name, value in query:
        given.setdefault(name, []).append(value)
    asked = (given.get("model") or [""])[0]
    model = next((one for one in (asked, default_model, *models) if one in models), None)
    alias = (given.get("alias") or [""])[0].strip() or default_alias
    chosen = given.get("choose", [])
    if model not in given.get("of", [model]):  # these were versions of another model
        chosen = []
    return Choice(
        model=model,
        alias=alias,
        versions=tuple(
            int(one)
            for one in dict.fromkeys(chosen)
            if one.isascii() and one.isdigit() and len(one) <= LONGEST
        ),
        without=tuple(one.removeprefix(WITHOUT) for one in dict.fromkeys(chosen) if one.startswith(WITHOUT)),
    )


NEWEST_EVENTS: Final = 50
"""Events that are shown."""

_TOLD: Final = {"withdrawn": "WITHDRAWN", "stopped": "STOPPED"}


def console_page(
    registry: Registry, query: Sequence[tuple[str, str]], default_model: str | None, default_alias: str
) -> str:
    """The page; it reads the registry and blocks, so run it in a thread.

    Raises:
        RegistryError: the registry cannot be read.
    """
    models = registry.models()
    choice = read_choice(query, models, default_model, default_alias)
    return render(
        "console.html",
        here="console",
        seen={"models": models, **(_read(registry, choice.model, choice) if choice.model else {})},
        choice=choice,
        without=WITHOUT,
        promoted=promoted(choice),
        set_title=set_title,
        not_signed=NOT_SIGNED,
    )


def _read(registry: Registry, model: str, choice: Choice) -> dict[str, Any]:
    """What is known of a model: what can be chosen, what would change, and what was done."""
    aliases, withdrawn = registry.aliases(model), registry.withdrawals(model)
    events = registry.history(model, NEWEST_EVENTS)
    forged = registry.forged(events)
    comparison, trouble = None, ""
    if choice.versions or choice.without:
        try:
            comparison = registry.compare(model, choice.versions, to=choice.alias, without=choice.without)
        except (RegistryError, BundleError) as error:
            trouble = str(error)
    numbers = {one.number for one in withdrawn}
    by_subgroup: dict[str, list[Version]] = {}
    for version in reversed(registry.versions(model)):
        may_be_chosen = by_subgroup.setdefault(version.subgroup.name, [])
        if version.number not in numbers:
            may_be_chosen.append(version)
    return {
        "rows": [
            _row(name, found, choice, aliases.get(choice.alias))
            for name, found in sorted(by_subgroup.items(), key=lambda one: (one[0] != GLOBAL, one[0]))
        ],
        "aliases": aliases,
        "stopped": registry.stopped(model),
        "withdrawn": withdrawn,
        "comparison": comparison,
        "trouble": trouble,
        # The newest first, each with what must not be overlooked in a word.
        "history": [
            (event_view(event, forged), OVERRIDDEN if event.overridden else _TOLD.get(event.kind, ""))
            for event in reversed(events)
        ],
        "older": max(registry.history_length(model) - NEWEST_EVENTS, 0),
    }


def _row(name: str, found: Sequence[Version], choice: Choice, release: Release | None) -> dict[str, Any]:
    """One subgroup, with what runs and what may be chosen for it, the newest first."""
    running = None if release is None else release.for_subgroup(name)
    chosen = next((str(one.number) for one in found if one.number in choice.versions), "")
    if name in choice.without:
        chosen = WITHOUT + name
    shown = [one for place, one in enumerate(found) if place < MANY or str(one.number) == chosen]
    return {
        "subgroup": name,
        "running": None if running is None else running.number,
        "versions": shown,
        "older": len(found) - len(shown),
        "chosen": chosen,
        "may_go": running is not None and name != GLOBAL,
    }


def promoted(choice: Choice) -> str:
    """The versions, alias and omitted subgroups of a choice, as `dermfed-registry promote` takes them."""
    left_out = [option for name in choice.without for option in ("--without", name)]
    return shlex.join([choice.model or "", *map(str, choice.versions), "--to", choice.alias, *left_out])

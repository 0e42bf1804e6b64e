"""Compares the release that would result with the one that runs, subgroup by subgroup.

Each subgroup counts with the test metrics of the version that answers for it, as the gates read them. Those
with the darkest skin come first.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from registry.bundle.labels import GLOBAL, Subgroup
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import (
    ALL,
    AT_WORKING_POINT,
    FIGURES,
    TOO_FEW,
    UNKNOWN,
    PatientFigures,
    Told,
    patient_figures,
)
from registry.bundle.skin_tone import SCALES, canonical_tone, from_dark
from registry.gate_report import (
    NOT_JUDGED,
    Answering,
    Comparison,
    FigureChange,
    GateFinding,
    GateReport,
    GateSaid,
    SubgroupChange,
    worst_of,
)
from registry.gates.gate import answers_for, for_everybody, tested
from registry.releases.compose import Candidate

ORDER: Final = ("malignant_sensitivity", "sensitivity_at_threshold")
"""The figures that come first, each by kind of malignancy as well; the others follow as
`registry.bundle.metrics.patient` names them.
"""

_Figure = tuple[str, str | None]
"""A figure's name, and the kind of malignancy; None for all pictures."""

_CALLED: Final[Mapping[str, str]] = {**FIGURES, **AT_WORKING_POINT}
_PLACES: Final = list(dict.fromkeys([*ORDER, *_CALLED]))
_NONE: Final = Told(None, words=UNKNOWN)


def compare_releases(
    candidate: Candidate,
    manifests: Mapping[int, BundleManifest],
    running: Mapping[int, BundleManifest],
    report: GateReport,
    *,
    unreadable: str = "",
    warnings: Sequence[str] = (),
) -> Comparison:
    """The comparison of a candidate with what runs.

    Args:
        candidate: the release that would result.
        manifests: of its versions, by number.
        running: of the versions of the release that runs; empty where none does, or it cannot be read.
        report: what the gates said of the candidate.
        unreadable: why the running release cannot be read.
        warnings: what to know before promoting.
    """
    # The gates may name further subgroups: such as no test knows, or the global version.
    judged = {one.subgroup for result in report.results for one in result.findings if one.subgroup}
    now, figures_now = _side(running, with_global=GLOBAL in judged)
    then, figures_then = _side(manifests, with_global=GLOBAL in judged)
    named = (each for one in (*running.values(), *manifests.values()) for each in one.named_subgroups)
    dark = {one.name: darkness(one) for one in named}
    names = {*figures_then, *then, *figures_now, *now, *judged}
    subgroups = tuple(
        _subgroup(
            name,
            (now.get(name), then.get(name)),
            tuple(_changes(figures_now.get(name, {}), figures_then.get(name, {}))),
            tuple(_said_of(name, report)),
        )
        for name in sorted(names, key=lambda name: (-dark.get(name, 0.5), name))
    )
    before = candidate.before
    return Comparison(
        model=candidate.model,
        alias=candidate.alias,
        release=None if before is None else before.id,
        named=tuple(one.number for one in candidate.named),
        without=candidate.without,
        running=() if before is None else tuple(one.number for one in before.versions),
        candidate=tuple(one.number for one in candidate.versions),
        changes_nothing=candidate.changes_nothing,
        unreadable=unreadable,
        warnings=(*warnings, *(f"not judged: {one}" for one in report.not_judged)),
        subgroups=subgroups,
        gates=tuple(GateSaid(one.gate, _shown(one.verdict), one.detail) for one in report.results),
        losses=tuple(
            f"{one.subgroup}: {figure.called}" for one in subgroups for figure in one.figures if figure.lost
        ),
        refused=report.refused,
        report=report,
    )


def darkness(subgroup: Subgroup) -> float:
    """How dark the skin of a subgroup is, by its tones: from 0 to 1; 0.5 where none of them says."""
    ranks = []
    for scale, values in subgroup.by_scale.items():
        tones = from_dark(scale)[::-1] if scale in SCALES else ()
        known = (canonical_tone(tone, scale) for tone in values)
        ranks += [tones.index(tone) / (len(tones) - 1) for tone in known if tone in tones]
    return sum(ranks) / len(ranks) if ranks else 0.5


def _side(
    manifests: Mapping[int, BundleManifest], *, with_global: bool
) -> tuple[dict[str, Answering], dict[str, Mapping[_Figure, Told]]]:
    """The version that answers for each subgroup of a release, and its metrics there.

    Those of the global version stand under `global` where the test names no subgroup, or if asked for.
    """
    if not manifests:
        return {}, {}
    listed = list(manifests.values())
    numbers = {id(manifest): number for number, manifest in manifests.items()}
    versions = answers_for(listed)
    rows = {one.name: patient_figures(one.row, one.kinds)[ALL] for one in tested(listed) if one.row}
    if with_global or not versions:
        versions = {GLOBAL: for_everybody(listed), **versions}
    found = {}
    for name, manifest in versions.items():
        row = rows.get(name)
        counts = (None, None, None) if row is None else (row.n, row.n_malignant, row.n_other)
        found[name] = Answering(numbers[id(manifest)], not manifest.subgroup.is_global, *counts)
    return found, {name: _figures(row) for name, row in rows.items()}


def _figures(row: PatientFigures) -> dict[_Figure, Told]:
    """The figures of a subgroup, and the sensitivities of each kind of malignancy."""
    found: dict[_Figure, Told] = {(name, None): figure for name, figure in row.figures.items()}
    for kind, of in row.by_kind.items():
        for name in (name for name in ORDER if name in row.figures):
            found[name, kind] = Told(None, words=TOO_FEW) if of is None else of.figures.get(name, _NONE)
    return found


def _changes(running: Mapping[_Figure, Told], candidate: Mapping[_Figure, Told]) -> Iterator[FigureChange]:
    """Each metric under both releases, those of `ORDER` first."""
    known = dict.fromkeys([*running, *candidate])
    for key in sorted(known, key=lambda key: _PLACES.index(key[0])):
        (name, kind), now, then = key, running.get(key), candidate.get(key)
        before, after = (None if one is None else one.value for one in (now, then))
        change = None if before is None or after is None else after - before
        lost = before is not None and (change is None or change < 0)
        called = _CALLED[name] if kind is None else f"{_CALLED[name]}, {kind}"
        yield FigureChange(name, called, now, then, change, lost, kind)


def _subgroup(
    name: str,
    answering: tuple[Answering | None, Answering | None],
    figures: tuple[FigureChange, ...],
    gates: tuple[GateSaid, ...],
) -> SubgroupChange:
    running, candidate = answering
    return SubgroupChange(
        subgroup=name,
        running=running,
        candidate=candidate,
        version_changes=(running and running.version) != (candidate and candidate.version),
        figures=figures,
        gates=gates,
        lost=any(figure.lost for figure in figures),
        refused=any(gate.verdict == "refused" for gate in gates),
    )


def _said_of(name: str, report: GateReport) -> Iterator[GateSaid]:
    """What each gate that has a finding on this subgroup says of it."""
    for result in report.results:
        if findings := tuple(one for one in result.findings if one.subgroup == name):
            yield GateSaid(result.gate, _shown(worst_of(findings)), "; ".join(map(_line, findings)))


def _shown(verdict: str) -> str:
    return NOT_JUDGED if verdict == "not applicable" else verdict


def _line(finding: GateFinding) -> str:
    value = "" if finding.value is None else f" {finding.value:.3g}"
    limit = "" if finding.limit is None else f", {finding.bound} {finding.limit:.3g}"
    note = f" ({finding.note})" if finding.note else ""
    return f"{finding.measure}{value}{limit}{note}"

"""Compares the release that would result with the one that runs, subgroup by subgroup.

Each subgroup counts with the test figures of the version that answers for it, as the gates read them. Those
with the darkest skin come first: by the tones of the subgroup's version, else by its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from registry.bundle.labels import GLOBAL, Subgroup
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.patient import AT_WORKING_POINT, FIGURES, PatientFigures, Told
from registry.bundle.skin_tone import SCALES, canonical_tone
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
from registry.gates.gate import answers_for, for_everybody, for_patients
from registry.releases.compose import Candidate

ORDER: Final = ("malignant_sensitivity", "sensitivity_at_threshold")
"""The figures that come first; the others follow as `registry.bundle.metrics.patient` names them."""

_CALLED: Final[Mapping[str, str]] = {**FIGURES, **AT_WORKING_POINT}
_FROM_DARK_TO_LIGHT: Final = ("milk10k",)  # scales that run the other way than the others
_DARK: Final = ("dark", "black", "brown")
_LIGHT: Final = ("light", "pale", "white", "fair")
_ROMAN: Final = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5", "VI": "6"}


def compare_releases(
    candidate: Candidate,
    alias: str,
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
        alias: under which alias.
        manifests: of its versions, by number.
        running: of the versions of the release that runs; empty where none does, or it cannot be read.
        report: what the gates said of the candidate.
        unreadable: why the running release cannot be read.
        warnings: what to know before promoting.
    """
    now, then = _answering(running), _answering(manifests)
    figures_now = for_patients(list(running.values())) if running else {}
    figures_then = for_patients(list(manifests.values()))
    own = {one.subgroup.name: one.subgroup for one in (*running.values(), *manifests.values())}
    # The gates may name further subgroups: such as are asked for and that no test knows.
    judged = [finding.subgroup for result in report.results for finding in result.findings]
    if GLOBAL in judged:  # by a gate that looks at each version, such as parity
        now, then = _with_everybody(now, running), _with_everybody(then, manifests)
    names = dict.fromkeys([*figures_then, *then, *figures_now, *now, *filter(None, judged)])
    subgroups = tuple(
        _subgroup(
            name,
            _side(now.get(name), running, figures_now.get(name)),
            _side(then.get(name), manifests, figures_then.get(name)),
            _changes(figures_now.get(name), figures_then.get(name)),
            tuple(_said_of(name, report)),
        )
        for name in sorted(names, key=lambda name: (-darkness(name, own.get(name)), name))
    )
    before = candidate.before
    return Comparison(
        model=candidate.model,
        alias=alias,
        release=None if before is None else before.id,
        named=tuple(one.number for one in candidate.named),
        without=candidate.without,
        running=() if before is None else tuple(one.number for one in before.versions),
        candidate=tuple(one.number for one in candidate.versions),
        changes_nothing=candidate.changes_nothing,
        unreadable=unreadable,
        warnings=(*warnings, *(f"not judged: {one}" for one in report.not_judged)),
        subgroups=subgroups,
        gates=tuple(_gate_said(result.gate, result.verdict, result.detail) for result in report.results),
        losses=tuple(
            f"{one.subgroup}: {figure.called}" for one in subgroups for figure in one.figures if figure.lost
        ),
        refused=report.refused,
        report=report,
    )


def darkness(name: str, subgroup: Subgroup | None) -> float:
    """How dark the skin of a subgroup is, from 0 to 1; 0.5 where neither its tones nor its name tell."""
    declared = {} if subgroup is None else subgroup.by_scale
    found = [_rank(tone, scale) for scale, tones in declared.items() for tone in tones]
    if known := [rank for rank in found if rank is not None]:
        return sum(known) / len(known)
    roman = _rank(_ROMAN.get(name.upper(), name), "fitzpatrick")
    if roman is not None:
        return roman
    words = name.casefold()
    return (
        1.0 if any(word in words for word in _DARK) else 0.0 if any(word in words for word in _LIGHT) else 0.5
    )


def _rank(tone: str, scale: str) -> float | None:
    tones = SCALES.get(scale, ())
    if (known := canonical_tone(tone, scale)) not in tones:
        return None
    rank = tones.index(known) / (len(tones) - 1)
    return 1 - rank if scale in _FROM_DARK_TO_LIGHT else rank


def _answering(manifests: Mapping[int, BundleManifest]) -> dict[str, int]:
    """The number of the version that answers for each subgroup, `global` where the test names none."""
    if not manifests:
        return {}
    numbers = {id(manifest): number for number, manifest in manifests.items()}
    listed = list(manifests.values())
    everybody = for_everybody(listed)
    answering = answers_for(listed) or {everybody.subgroup.name: everybody}
    return {name: numbers[id(manifest)] for name, manifest in answering.items()}


def _with_everybody(answering: dict[str, int], manifests: Mapping[int, BundleManifest]) -> dict[str, int]:
    """The same, and the number of the version for everybody as that for `global`."""
    found = [number for number, manifest in manifests.items() if manifest.subgroup.is_global]
    return {GLOBAL: found[0], **answering} if found else answering


def _side(
    number: int | None, manifests: Mapping[int, BundleManifest], row: PatientFigures | None
) -> Answering | None:
    if number is None:
        return None
    own = not manifests[number].subgroup.is_global
    if row is None:
        return Answering(number, own, None, None, None)
    return Answering(number, own, row.n, row.n_malignant, row.n_other)


def _changes(running: PatientFigures | None, candidate: PatientFigures | None) -> tuple[FigureChange, ...]:
    rows = [row.figures for row in (running, candidate) if row is not None]
    told = [name for name in _CALLED if any(name in row for row in rows)]
    ordered = [*(name for name in ORDER if name in told), *(name for name in told if name not in ORDER)]
    return tuple(
        _change(
            name,
            None if running is None else running.figures.get(name),
            None if candidate is None else candidate.figures.get(name),
        )
        for name in ordered
    )


def _change(name: str, running: Told | None, candidate: Told | None) -> FigureChange:
    before = None if running is None else running.value
    after = None if candidate is None else candidate.value
    change = None if before is None or after is None else after - before
    lost = before is not None and (change is None or change < 0)
    return FigureChange(name, _CALLED[name], running, candidate, change, lost)


def _subgroup(
    name: str,
    running: Answering | None,
    candidate: Answering | None,
    figures: tuple[FigureChange, ...],
    gates: tuple[GateSaid, ...],
) -> SubgroupChange:
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
    """What each gate that has a line about this subgroup says of it."""
    for result in report.results:
        lines = tuple(finding for finding in result.findings if finding.subgroup == name)
        if lines:
            yield _gate_said(result.gate, _worst(lines), "; ".join(map(_line, lines)))


def _worst(lines: tuple[GateFinding, ...]) -> str:
    return worst_of(lines) if len(lines) > 1 else lines[0].verdict


def _gate_said(gate: str, verdict: str, detail: str) -> GateSaid:
    return GateSaid(gate, NOT_JUDGED if verdict == "not applicable" else verdict, detail)


def _line(finding: GateFinding) -> str:
    value = "" if finding.value is None else f" {finding.value:.3g}"
    limit = "" if finding.limit is None else f", {finding.bound} {finding.limit:.3g}"
    note = f" ({finding.note})" if finding.note else ""
    return f"{finding.measure}{value}{limit}{note}"

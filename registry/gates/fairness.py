"""Gates between subgroups: `spread`, and who was in the data, `required_subgroups` and `tones`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from registry.bundle.manifest import BundleManifest
from registry.bundle.skin_tone import canonical_tone
from registry.gate_report import GateFinding, GateResult, SubgroupFigure
from registry.gates.gate import (
    Case,
    Interval,
    NumericGate,
    answers_for,
    check,
    difference_interval,
    for_everybody,
    not_applicable,
    refused,
    tested,
)
from registry.gates.threshold import counted


class SpreadGate(NumericGate):
    """How much worse than the best served subgroup another one may fare: max - min accuracy (paper 003).

    With p1 the best and p2 the worst accuracy the spread is d = p1 - p2, and its interval that of MOVER,
    cut at 0, since a spread is never negative. The verdict goes by d alone; the interval is shown and kept.

    A subgroup without accuracy is refused; with fewer than two the gate does not apply. Accuracy may be equal
    where nothing malignant was tested: that is said, and judged by `required_subgroups`.
    """

    passes = (
        "test accuracy of the subgroup served best minus that of the one served worst: at most {limit:.3f}"
    )
    name: Literal["spread"] = "spread"
    limit: float = Field(0.10, ge=0, le=1)  # of max - min accuracy over subgroups

    def judge(self, case: Case) -> GateResult:
        """Judge a release."""
        result = super().judge(case)
        if result.value is None:
            return result
        best, worst = _ends(case)
        return result.model_copy(update={"best": best, "worst": worst})

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for the subgroup served worst, or for each that was never tested."""
        why = "it compares two subgroups or more, and the test metrics name"
        if not answers_for(case.manifests) and for_everybody(case.manifests).metrics:
            yield not_applicable("accuracy gap", f"{why} none")
            return
        rows = tested(case.manifests)
        accuracies = {one.name: one.figure("accuracy") for one in rows}
        if untested := [name for name, one in accuracies.items() if one is None]:
            yield from (check(name, "accuracy", None, "at most", self.limit) for name in untested)
            return
        if len(accuracies) < 2:
            yield not_applicable("accuracy gap", f"{why} only {', '.join(accuracies)}")
            return
        best, worst = _ends(case)
        note = f"{worst.value:.3f} against {best.value:.3f}"
        if empty := [one.name for one in rows if one.row.get("n_malignant") == 0]:
            note += f", no malignant image of {', '.join(empty)} was tested"
        gap = SubgroupFigure(
            subgroup=worst.subgroup,
            value=best.value - worst.value,
            n=worst.n,
            interval=spread_interval(best, worst),
        )
        yield check(worst.subgroup, f"accuracy gap to {best.subgroup}", gap, "at most", self.limit, note=note)


def _ends(case: Case) -> tuple[SubgroupFigure, SubgroupFigure]:
    """The best and the worst accuracy."""
    found = (one.figure("accuracy") for one in tested(case.manifests))
    ordered = sorted((one for one in found if one is not None), key=lambda one: one.value)
    return ordered[-1], ordered[0]


def spread_interval(best: SubgroupFigure, worst: SubgroupFigure) -> Interval | None:
    """The interval of best - worst from the intervals of both."""
    found = difference_interval(best, worst)
    return None if found is None else (max(0.0, found[0]), found[1])


class RequiredSubgroupsGate(NumericGate):
    """On how many malignant images each of these subgroups must have been tested.

    Groups seem equal where nothing malignant was tested in any of them, and one that is in no test seems to
    fare like the others: both are refused. Required are `subgroups`; where none is named, those that the
    tests of the release name, and those that they call absent.

    A name is not enough: a subgroup called `dark` over light tones would represent it. `tones` says over
    which tones a subgroup is, at least; where the running release has one of the same name, it must be
    over the same.
    """

    counts = True
    needs_malignant = True
    remedy = "test on more malignant images of"
    missing = "test again, counting malignant images of"
    name: Literal["required_subgroups"] = "required_subgroups"
    malignant: int = Field(ge=1)  # malignant test images of each subgroup
    subgroups: tuple[str, ...] = ()  # those required; none: all that the tests name
    tones: Mapping[str, Mapping[str, tuple[str, ...]]] = Field(default_factory=dict)  # by subgroup and scale

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        required = ", ".join(self._required) or "every subgroup that the tests name"
        return f"malignant test images of {required}: at least {self.malignant} each"

    @property
    def _required(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.subgroups, *self.tones]))

    def advice(self, finding: GateFinding) -> str:
        """A subgroup over other tones needs another name, or these tones."""
        if finding.measure == "skin tones":
            return "rename, or test on these tones,"
        return super().advice(finding)

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup; only those over other tones, where there are any."""
        if other := self._other_tones(case):
            for name, note in other.items():
                yield refused("skin tones", note, name)
            return
        rows = {one.name: one.row for one in tested(case.manifests)}
        for name in self._required or counted(case.manifests):
            row = rows.get(name)
            n = row.get("n_malignant") if row else 0
            note = "never counted" if n is None else "" if row else "never tested"
            yield check(name, "malignant test images", n, "at least", self.malignant, note=note)

    def _other_tones(self, case: Case) -> dict[str, str]:
        """The subgroups called as those required that are over other tones, and over which."""
        known, before = tones_by_name(case.manifests), tones_by_name(case.running) if case.running else {}
        other: dict[str, str] = {}
        for name, tones in before.items():
            if name in known and known[name] != tones:
                other[name] = f"over {_named(known[name])}, and over {_named(tones)} in the running release"
        for name, scales in self.tones.items():
            required = _pairs(scales)
            if not required <= known.get(name, frozenset()):
                other[name] = f"over {_named(known.get(name))}, and required over {_named(required)}"
        return other


class TonesGate(NumericGate):
    """How many patients of every skin tone that a subgroup names its calibration and its test must have.

    It asks by scale value, since a subgroup of four tones may have seen three, by the bundle's
    `patients_by_tone`. A bundle without them is refused. A tone that is not represented in the calibration is
    not judged where another of its subgroup is: the service answers it as an unknown tone, and guarantees
    it nothing.
    """

    counts = True
    remedy = missing = (
        "bring more patients of these tones, or leave them out of data.subgroups, and train again for"
    )
    passes = (
        "patients of every skin tone that a subgroup names: at least {patients} in its calibration, and as "
        "many in its test"
    )
    name: Literal["tones"] = "tones"
    patients: int = Field(10, ge=1)  # of each tone, in the calibration and in the test

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """Two findings for each tone that a version claims for a subgroup: its calibration and its test."""
        own = {one.subgroup.name for one in case.manifests if not one.subgroup.is_global}
        claims = {
            (one.subgroup, one.scale, one.tone): (one, manifest.patients_by_tone is None)
            for manifest in case.manifests
            for one in manifest.claimed_tones
            if not (manifest.subgroup.is_global and one.subgroup in own)
        }
        if not claims:
            yield not_applicable("patients of a skin tone", "no subgroup of the release names a skin tone")
        represented = {one.subgroup for one, _ in claims.values() if one.calibration is not None}
        for one, silent in claims.values():
            if one.calibration is None and one.subgroup in represented:
                why = f"skin tone {one.called} has too few patients, and is answered as an unknown tone"
                measure = f"patients of skin tone {one.called} in calibration"
                yield not_applicable(measure, why, one.subgroup)
                continue
            note = "the bundle has no patients_by_tone" if silent else "too few to disclose, or none"
            for part, n in (("calibration", one.calibration), ("test", one.test)):
                measure = f"patients of skin tone {one.called} in {part}"
                why = note if n is None else ""
                yield check(one.subgroup, measure, n, "at least", self.patients, note=why)


Tones = frozenset[tuple[str, str]]
"""Scales and tones, each tone as its scale writes it."""


def tones_by_name(manifests: Sequence[BundleManifest]) -> dict[str, Tones]:
    """The tones of each subgroup of a release: of a version of its own, else as the global test has them."""
    tested = {one.name: one for one in for_everybody(manifests).named_subgroups}
    own = {one.subgroup.name: one.subgroup for one in manifests}
    return {name: _pairs(one.by_scale) for name, one in {**tested, **own}.items() if not one.is_global}


def _pairs(scales: Mapping[str, Sequence[str]]) -> Tones:
    return frozenset((scale, canonical_tone(tone, scale)) for scale in scales for tone in scales[scale])


def _named(tones: Tones | None) -> str:
    if not tones:
        return "no tones that the bundle names"
    scales = sorted({scale for scale, _ in tones})
    return " or ".join(
        f"{', '.join(sorted(tone for own, tone in tones if own == scale))} ({scale})" for scale in scales
    )

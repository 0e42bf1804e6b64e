"""A figure of every subgroup against a limit: four gates.

A subgroup without the figure is refused: it was never tested, or its version not calibrated. Where the test
names no subgroup, all its pictures stand as `global`.

Whether a gate on malignancy applies: not to labels that say, each of them, that they are not malignant.

A label of unknown kind is one of which nobody said anything. Were such gates not to apply to it, leaving the
word out would be the way around them.

Which gate set is asked where several might be: the newest of the narrowest kind that there is.

The gate `shown_sensitivity`: every subgroup's malignant sensitivity is shown to be `limit` at least.

Shown is the lower end of the 95 % interval: 18 of 21 found are 0.857, and show 0.637. Where the test names a
sensitivity at the working point, that is judged, since a clinic acts on it; elsewhere that of the most
probable class. The lower end is the bundle's own, of lesions, and never above Clopper and Pearson's of as
many pictures.

A subgroup without the figure is refused, and so is one whose malignant test pictures were never counted.
Where every label says that it is not malignant the gate does not
apply, and where some say nothing it refuses; where the test names no subgroup, all its pictures are judged.

The gate `risk`: of the answers given to any subgroup, no more were wrong than its version allows itself.

Each subgroup is measured against `target_risk` of the version that answers for it, and refused where the
lower end of the 95 % interval lies above the target: then the promise is broken for certain. The upper end
would be the wrong judge: 3 wrong of 60 answers reach to 0.139, so that a target of 0.1 would refuse nearly
every honest test of a rare subgroup. The promise itself is made by an upper limit, at calibration. Without an
interval the figure decides.

A subgroup of which nobody is answered has no such share: not applicable, `answered` judges it. One without
the figure is refused.

The gate `count`: at least `minimum` test pictures behind every subgroup's figures.

A subgroup of which the test says that none of its pictures were there (`absent`), and one without any figure,
is refused: nobody knows how it fares. Where the test names no subgroup, all its pictures are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from registry.bundle.labels import GLOBAL, UNDECLARED, malignant_classes
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.patient import PatientFigures
from registry.gate_report import (
    OVERRIDE,
    Bound,
    GateFinding,
    GateResult,
    SubgroupFigure,
    never_tested,
    worst_of,
)
from registry.gates.gate import (
    ROUNDING,
    Case,
    GateConfig,
    answers_for,
    figures_by_subgroup,
    for_everybody,
    for_patients,
    stand_or_total,
)


def without_malignant(
    gate: str, manifests: Sequence[BundleManifest], limit: float, why: str
) -> GateResult | None:
    """What a gate says where no label is malignant; None where one is, and it has to judge.

    Args:
        gate: its name.
        manifests: of the release.
        limit: its limit.
        why: why there is nothing to judge.
    """
    labels = for_everybody(manifests).labels
    if malignant_classes(labels).any():
        return None
    unknown = [label.code for label in labels if label.malignancy == "unknown"]
    if not unknown:
        detail = f"no label of the model is malignant, {why}"
        return GateResult(gate=gate, verdict="not applicable", limit=limit, detail=detail)
    detail = (
        f"no label of the model is malignant, and of {', '.join(unknown)} nobody said whether they are. Say "
        f"`malignancy: benign`, premalignant or malignant of each label in the job, {OVERRIDE}"
    )
    return GateResult(gate=gate, verdict="refused", limit=limit, detail=detail)


class ThresholdGate(GateConfig):
    """A gate whose figure must lie on one side of a limit for every subgroup.

    Attributes:
        limit: what the worst subgroup must reach.
        figure: the figure's name in a bundle.
        called: the figure, as people say it.
        described: the same with whom it is of, as `meaning` says it.
        bound: the side.
    """

    limit: float = Field(ge=0, le=1)
    figure: ClassVar[str]
    called: ClassVar[str]
    described: ClassVar[str]
    bound: ClassVar[Bound] = "at least"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"{self.described}: {self.bound} {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand_or_total(case.manifests, self.figure)
        return against_limit(self.name, self.called, standings, self.bound, self.limit)


class AnsweredGate(ThresholdGate):
    """How many of every subgroup must get an answer.

    The others are referred to a clinician. A model that refers nearly everybody keeps every promise and helps
    nobody; one that refers a single skin tone is of no use to it.
    """

    name: Literal["answered"] = "answered"
    figure = "reported"
    called = "share answered"
    described = "share of every subgroup's test pictures that is answered"


class CalibrationGate(ThresholdGate):
    """How far confidence may lie from accuracy in any subgroup: the expected calibration error (ECE).

    As the served graph answers, temperature included. Noise raises the figure, so that on few pictures the
    gate errs towards refusing.
    """

    name: Literal["calibration"] = "calibration"
    figure = "ece"
    called = "calibration error"
    described = "expected calibration error on every subgroup's test pictures"
    bound = "at most"


class WorstBalancedAccuracyGate(ThresholdGate):
    """How well the subgroup served worst must be served, each class counting alike.

    The mean recall over classes, so that a model that calls everything a naevus does not pass.
    """

    name: Literal["worst_balanced_accuracy"] = "worst_balanced_accuracy"
    figure = "balanced_accuracy"
    called = "balanced accuracy"
    described = "balanced test accuracy of every subgroup"


class WorstMalignantSensitivityGate(ThresholdGate):
    """How much of what is malignant must be found in every subgroup.

    Found is a picture whose answer is any malignant class. Where every label says that it is not malignant
    the gate does not apply, and where some say nothing it refuses.
    """

    name: Literal["worst_malignant_sensitivity"] = "worst_malignant_sensitivity"
    figure = "malignant_sensitivity"
    called = "malignant sensitivity"
    described = "share of every subgroup's malignant test pictures that is found"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there is nothing malignant to find"
        return without_malignant(self.name, case.manifests, self.limit, none) or super().judge(case)


def against_limit(
    gate: str, called: str, standings: Mapping[str, SubgroupFigure | None], bound: Bound, limit: float
) -> GateResult:
    """What a gate says whose figure must lie on one side of a limit for every subgroup.

    Args:
        gate: the gate's name.
        called: the figure, as people say it.
        standings: each subgroup's figure; None where it was never tested.
        bound: the side.
        limit: the limit, which itself passes.
    """
    findings = tuple(_finding(name, called, one, bound, limit) for name, one in standings.items())
    tested = [standing for standing in standings.values() if standing is not None]
    untested = tuple(name for name, standing in standings.items() if standing is None)
    outside = [one for one in tested if not lies(one.value, bound, limit)]
    worst = sorted(tested, key=lambda one: one.value, reverse=bound == "at most")[:1]
    said = [never_tested(untested, called)] if untested else []
    if outside:
        said.append(f"{called} is {', '.join(map(str, outside))}")
    if not said and worst:
        said.append(f"{called} is {'lowest' if bound == 'at least' else 'highest'} at {worst[0]}")
    detail = f"{'; '.join(said)}; {bound} {limit:.3f} is asked for"
    if untested or outside:
        steps = [f"Test {', '.join(untested)}"] if untested else []
        if outside:
            steps.append(f"{'improve' if steps else 'Improve'} the model for {_names(outside)}")
        detail += f". {', '.join(steps)}, {OVERRIDE}"
    return GateResult(
        gate=gate,
        verdict=worst_of(findings),
        value=worst[0].value if worst else None,
        limit=limit,
        interval=worst[0].interval if worst else None,
        worst=worst[0] if worst else None,
        untested=untested,
        findings=findings,
        detail=detail,
    )


def lies(value: float, bound: Bound, limit: float) -> bool:
    """Whether a value lies on the right side of a limit, or on it."""
    return value >= limit - ROUNDING if bound == "at least" else value <= limit + ROUNDING


def _names(standings: list[SubgroupFigure]) -> str:
    return ", ".join(one.subgroup for one in standings)


def _finding(
    name: str, called: str, standing: SubgroupFigure | None, bound: Bound, limit: float
) -> GateFinding:
    if standing is None:
        return GateFinding(
            subgroup=name, measure=called, bound=bound, limit=limit, verdict="refused", note="never tested"
        )
    return GateFinding(
        subgroup=name,
        measure=called,
        value=standing.value,
        n=standing.n,
        interval=standing.interval,
        bound=bound,
        limit=limit,
        verdict="passed" if lies(standing.value, bound, limit) else "refused",
    )


ALL_MODELS: Final = ""
"""Whose set is asked of each model without its own."""

ALL_ALIASES: Final = ""
"""Under what a set is asked that is for no alias alone."""


def narrowest_first(model: str, alias: str) -> Sequence[tuple[str, str]]:
    """Whose sets, under which alias, are looked for: the first of these that there is counts."""
    pairs = [(whose, under) for whose in (model, ALL_MODELS) for under in (alias, ALL_ALIASES)]
    return list(dict.fromkeys(pairs))


AT_WORKING_POINT = "sensitivity_at_threshold"
AT_MOST_PROBABLE = "malignant_sensitivity"


@dataclass(frozen=True)
class _Shown:
    """What one subgroup's test shows; `low` is None where it shows nothing."""

    called: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    note: str


class ShownSensitivityGate(GateConfig):
    """How much of what is malignant must be shown to be found in every subgroup."""

    name: Literal["shown_sensitivity"] = "shown_sensitivity"
    limit: float = Field(ge=0, le=1)  # of the least lower end over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "lower end of the 95 % interval of every subgroup's malignant sensitivity, at the working point "
            f"where there is one: at least {self.limit:.3f}"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there is nothing malignant to find"
        if (said := without_malignant(self.name, case.manifests, self.limit, none)) is not None:
            return said
        shown = {name: _shown(row) for name, row in for_patients(case.manifests).items()}
        findings = tuple(self._finding(name, one) for name, one in shown.items())
        refused = [one for one in findings if one.verdict == "refused"]
        measured = [one for one in findings if one.value is not None]
        worst = min(measured, key=lambda one: one.value or 0.0) if measured else None
        if refused:
            detail = (
                f"{'; '.join(map(_said, refused))}; {self.limit:.3f} is asked for. "
                f"{self._advice(shown, refused)}, {OVERRIDE}"
            )
        else:
            assert worst is not None, "a release is judged by one row of figures at least"
            detail = f"the least that is shown: {_said(worst)}; {self.limit:.3f} is asked for"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=self.limit,
            interval=worst.interval if worst else None,
            untested=tuple(one.subgroup for one in findings if one.value is None),
            findings=findings,
            detail=detail,
        )

    def _finding(self, name: str, shown: _Shown) -> GateFinding:
        passes = shown.low is not None and lies(shown.low, "at least", self.limit)
        return GateFinding(
            subgroup=name,
            measure=f"lower end of {shown.called}",
            value=shown.low,
            n=shown.n,
            interval=None if shown.low is None or shown.high is None else (shown.low, shown.high),
            bound="at least",
            limit=self.limit,
            verdict="passed" if passes else "refused",
            note=shown.note,
        )

    def _advice(self, shown: dict[str, _Shown], refused: list[GateFinding]) -> str:
        """Those whose figure itself is too low need a better model, the others more pictures."""
        values = {one.subgroup: shown[one.subgroup].value for one in refused}
        weak = [name for name, value in values.items() if value is not None and value < self.limit]
        few = [name for name in values if name not in weak]
        steps = [f"improve the model for {', '.join(weak)}"] if weak else []
        steps += [f"test on more malignant pictures of {', '.join(few)}"] if few else []
        told = "; ".join(steps)
        return told[0].upper() + told[1:]


def _shown(row: PatientFigures | None) -> _Shown:
    if row is None:
        return _Shown("malignant sensitivity", None, None, None, None, "never tested")
    at_point = AT_WORKING_POINT in row.figures
    told = row.figures[AT_WORKING_POINT if at_point else AT_MOST_PROBABLE]
    called = "malignant sensitivity" + (" at the working point" if at_point else "")
    if row.n_malignant is None:
        return _Shown(called, told.value, None, None, None, "malignant test pictures were never counted")
    if told.value is None or not row.n_malignant:
        return _Shown(called, None, None, None, row.n_malignant, "no malignant test pictures")
    low, high = clopper_pearson(told.value * row.n_malignant, row.n_malignant)
    if told.interval is not None:
        low, high = min(low, told.interval[0]), max(high, told.interval[1])
    note = f"{told.value:.3f}, {round(told.value * row.n_malignant)} of {row.n_malignant} found"
    return _Shown(called, told.value, low, high, row.n_malignant, note)


def _said(finding: GateFinding) -> str:
    called = finding.measure.removeprefix("lower end of ")
    if finding.value is None:
        return f"{called} of {finding.subgroup} is not known: {finding.note}"
    return f"{called} of {finding.subgroup} is shown to be {finding.value:.3f} at least ({finding.note})"


class RiskGate(GateConfig):
    """Whether the answers given are as seldom wrong as each version allows."""

    name: Literal["risk"] = "risk"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "lower end of the 95 % interval of the share of wrong answers among those given to every "
            "subgroup: at most the target of the version"
        )

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        answering = answers_for(case.manifests) or {GLOBAL: for_everybody(case.manifests)}
        standings = stand_or_total(case.manifests, "reported_risk")
        answered = stand_or_total(case.manifests, "reported")
        findings = tuple(
            self._finding(name, one, standings[name], answered[name]) for name, one in answering.items()
        )
        broken = [one for one in findings if one.verdict == "refused"]
        measured = [one for one in findings if one.value is not None]
        if broken:
            names = ", ".join(one.subgroup for one in broken)
            detail = (
                f"{'; '.join(map(_risk, broken))}. Calibrate anew on more pictures of {names}, {OVERRIDE}"
            )
        elif measured:
            detail = "no subgroup is shown to get more wrong answers than its version allows"
        else:
            detail = "nobody is answered, so no answer is wrong"
        worst = max(measured, key=lambda one: (one.value or 0.0) - (one.limit or 0.0)) if measured else None
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=worst.value if worst else None,
            limit=worst.limit if worst else None,
            interval=worst.interval if worst else None,
            worst=standings[worst.subgroup] if worst else None,
            untested=tuple(one.subgroup for one in broken if one.value is None),
            findings=findings,
            detail=detail,
        )

    def _finding(
        self,
        name: str,
        manifest: BundleManifest,
        risk: SubgroupFigure | None,
        answered: SubgroupFigure | None,
    ) -> GateFinding:
        measure, target = "share of wrong answers", manifest.abstention.target_risk
        if risk is None:
            nobody = answered is not None and not answered.value
            return GateFinding(
                subgroup=name,
                measure=measure,
                limit=target,
                verdict="not applicable" if nobody else "refused",
                note="nobody is answered" if nobody else "never tested",
            )
        least = risk.value if risk.interval is None else risk.interval[0]
        return GateFinding(
            subgroup=name,
            measure=measure,
            value=risk.value,
            n=risk.n,
            interval=risk.interval,
            limit=target,
            verdict="passed" if lies(least, "at most", target) else "refused",
        )


def _risk(finding: GateFinding) -> str:
    if finding.value is None:
        return never_tested((finding.subgroup,), "share of wrong answers")
    interval = finding.interval
    sure = "no interval" if interval is None else f"95 % interval {interval[0]:.3f} to {interval[1]:.3f}"
    return (
        f"of the answers for {finding.subgroup}, {finding.value:.3f} are wrong ({sure}), where at most "
        f"{finding.limit:.3f} are allowed"
    )


class CountGate(GateConfig):
    """How many pictures a subgroup's figures must rest on."""

    name: Literal["count"] = "count"
    minimum: int = Field(ge=1)  # test pictures of each subgroup

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"test pictures behind every subgroup's figures: at least {self.minimum}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        counts = counted(case.manifests)
        findings = tuple(
            GateFinding(
                subgroup=name,
                measure="test pictures",
                value=n,
                bound="at least",
                limit=self.minimum,
                verdict="refused" if n < self.minimum else "passed",
                note="" if n else "never tested",
            )
            for name, n in counts.items()
        )
        few = {name: n for name, n in counts.items() if n < self.minimum}
        fewest = min(counts, key=lambda name: counts[name])
        if few:
            detail = (
                f"there are {', '.join(f'{n} test pictures of {name}' for name, n in few.items())}; at least "
                f"{self.minimum} are asked for. Test on more pictures of {', '.join(few)}, {OVERRIDE}"
            )
        else:
            least = f"at least {self.minimum} are asked for"
            detail = f"the fewest test pictures are {counts[fewest]} of {fewest}; {least}"
        return GateResult(
            gate=self.name,
            verdict=worst_of(findings),
            value=counts[fewest],
            limit=self.minimum,
            untested=tuple(name for name, n in counts.items() if n == 0),
            findings=findings,
            detail=detail,
        )


def counted(manifests: Sequence[BundleManifest]) -> dict[str, int]:
    """The test pictures of each subgroup, 0 of one that was not tested."""
    everybody = for_everybody(manifests)
    counts = {name: _n(figures_by_subgroup(one).get(name)) for name, one in answers_for(manifests).items()}
    absent = everybody.metrics.get("absent")
    for name in absent if isinstance(absent, Sequence) and not isinstance(absent, str) else ():
        if isinstance(name, str) and name not in (GLOBAL, UNDECLARED):
            counts.setdefault(name, 0)
    return counts or {GLOBAL: _n(everybody.metrics)}


def _n(figures: Mapping[str, Any] | Any) -> int:
    n = figures.get("n") if isinstance(figures, Mapping) else None
    return n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else 0

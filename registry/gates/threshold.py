"""Numbers of every subgroup or version against limits.

`ThresholdGate`: one metric of every subgroup against one limit. A new gate of this kind is one class here, in
`THRESHOLD_GATES`, with its row in docs/registry.md and its row in tests/registry/gates/conftest.py. Then the
counts behind the metrics (`count`), what each version guarantees (`coverage`, `risk`), and the exported graph
against the trained network (`parity`).

A subgroup without the metric is refused: it was never tested, or its version was not calibrated. Where the
test names no subgroup, all its images count as `global`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from registry.bundle.labels import GLOBAL, UNDECLARED
from registry.bundle.manifest import BundleManifest
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.metrics.patient import TOO_FEW
from registry.gate_report import Bound, GateFinding, SubgroupFigure
from registry.gates.gate import Case, NumericGate, Tested, check, for_everybody, not_applicable, tested

AT_WORKING_POINT = "sensitivity_at_threshold"
AT_MOST_PROBABLE = "malignant_sensitivity"


class ThresholdGate(NumericGate):
    """A gate whose metric must lie on one side of a limit for every subgroup.

    Attributes:
        limit: what the worst subgroup must reach.
        metric: the metric's name in a bundle.
        measure: the metric in words.
        bound: the side.
    """

    limit: float = Field(ge=0, le=1)
    metric: ClassVar[str]
    measure: ClassVar[str]
    bound: ClassVar[Bound] = "at least"

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        for one in tested(case.manifests):
            yield check(one.name, self.measure, one.figure(self.metric), self.bound, self.limit)


class MinAnswerRateGate(ThresholdGate):
    """Of how many images of every subgroup more must be said than that a clinician has to look.

    Something is concluded, or triage calls them urgent or rules them out. A model that does so of nearly none
    keeps every guarantee and is of no use. A skin tone without a version of its own is answered by the global
    one, which rules nothing out where a tone is declared: what its test rules out there is not counted.
    """

    name: Literal["min_answer_rate"] = "min_answer_rate"
    metric = "answered"
    measure = "answer rate"
    passes = "share of every subgroup's test images that is answered: at least {limit:.3f}"

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        tones = {one.name for one in for_everybody(case.manifests).named_subgroups if not one.is_global}
        for one in tested(case.manifests):
            found = one.figure(self.metric)
            if found is not None and one.manifest.subgroup.is_global and one.name in tones:
                found = _without_ruled_out(found, one.row)
            yield check(one.name, self.measure, found, self.bound, self.limit)


def _without_ruled_out(answered: SubgroupFigure, row: Mapping[str, Any]) -> SubgroupFigure:
    """The share that is answered where nothing is ruled out: nothing benign is concluded then, either."""
    parts = ((row.get(f"ruled_out_{one}"), row.get(f"n_{one}")) for one in ("malignant", "other"))
    ruled_out = sum(round(share * n) for share, n in parts if share and n)
    if not ruled_out:
        return answered
    x = max(round(answered.value * answered.n) - ruled_out, 0)
    return SubgroupFigure(
        subgroup=answered.subgroup,
        value=x / answered.n,
        n=answered.n,
        interval=clopper_pearson(x, answered.n),
    )


class CalibrationGate(ThresholdGate):
    """How far confidence may lie from accuracy in any subgroup: the expected calibration error (ECE).

    As the served graph answers, temperature included. Noise raises the metric, so that on few images the
    gate errs towards refusing.
    """

    name: Literal["calibration"] = "calibration"
    metric = "ece"
    measure = "calibration error"
    passes = "expected calibration error on every subgroup's test images: at most {limit:.3f}"
    bound = "at most"


class WorstBalancedAccuracyGate(ThresholdGate):
    """How well the worst subgroup must be classified: the mean recall over classes."""

    name: Literal["worst_balanced_accuracy"] = "worst_balanced_accuracy"
    metric = "balanced_accuracy"
    measure = "balanced accuracy"
    passes = "balanced test accuracy of every subgroup: at least {limit:.3f}"


class WorstMalignantSensitivityGate(ThresholdGate):
    """How much of what is malignant must be found in every subgroup: answered with any malignant class."""

    needs_malignant = True
    name: Literal["worst_malignant_sensitivity"] = "worst_malignant_sensitivity"
    metric = AT_MOST_PROBABLE
    measure = "malignant sensitivity"
    passes = "share of every subgroup's malignant test images that is found: at least {limit:.3f}"


class MinSensitivityLowerBoundGate(ThresholdGate):
    """How high the lower end of the 95 % interval of every subgroup's malignant sensitivity must be.

    18 of 21 found are 0.857, and their lower end is 0.637. Where the test has a sensitivity at the working
    point, that is judged, since a clinic acts on it; elsewhere that of the most probable class. The lower end
    is the bundle's own, of lesions, and never above Clopper and Pearson's of as many images.

    Each kind of malignancy is judged as well, in every subgroup and over all test images of the global
    version: where most is basal cell carcinoma, all together are found while melanomas are missed. A kind
    of so few images that finding them all would not reach the limit is not judged, unless even the upper end
    is below it; nor is one that is too few to tell.
    """

    needs_malignant = True
    missing = "test on more malignant images of"
    name: Literal["min_sensitivity_lower_bound"] = "min_sensitivity_lower_bound"
    metric = AT_WORKING_POINT
    measure = "malignant sensitivity"
    passes = (
        "lower end of the 95 % interval of every subgroup's malignant sensitivity, of all malignant images "
        "and of each kind of them, at the working point where there is one: at least {limit:.3f}"
    )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup, and for each kind of malignancy in each and over all."""
        rows = tested(case.manifests)
        yield from map(self._finding, rows)
        whole = for_everybody(case.manifests)
        everybody = Tested(GLOBAL, whole, whole.metrics)
        for one in {**{one.name: one for one in rows}, GLOBAL: everybody}.values():
            if one.row or one is everybody:
                yield from (self._finding(one, kind) for kind in one.kinds)

    def advice(self, finding: GateFinding) -> str:
        """More images help unless the whole interval lies below the limit."""
        weak = finding.interval is not None and finding.interval[1] < self.limit
        return self.remedy if weak else self.missing

    def _finding(self, one: Tested, kind: str = "") -> GateFinding:
        at_point = AT_WORKING_POINT in one.of(kind)
        metric, place = (AT_WORKING_POINT, "at the working point") if at_point else (AT_MOST_PROBABLE, "")
        of = f"sensitivity for {kind}" if kind else f"malignant sensitivity {place}".rstrip()
        found, measure = one.figure(metric, kind, "n" if kind else "n_malignant"), f"lower end of {of}"
        if found is None and kind:
            return not_applicable(measure, f"{kind}: {TOO_FEW}", one.name)
        if found is None:
            counted = one.row.get("n_malignant") is not None
            note = "no malignant test images" if counted else "malignant test images were never counted"
            return check(one.name, measure, None, self.bound, self.limit, note=note if one.row else "")
        n = found.n
        low, high = clopper_pearson(found.value * n, n)
        if found.interval is not None:
            low, high = min(low, found.interval[0]), max(high, found.interval[1])
        all_found = found.value == 1 and low < self.limit
        if kind and (all_found or clopper_pearson(n, n)[0] < self.limit <= high):
            return not_applicable(measure, f"{kind}: {n} images, {TOO_FEW}", one.name)
        note = f"{found.value:.3f}, {round(found.value * n)} of {n} found"
        note = f"{place} {note}" if kind and at_point else note
        return check(one.name, measure, low, self.bound, self.limit, interval=(low, high), note=note)


class CountGate(NumericGate):
    """How many test images every subgroup's metrics must rest on; a subgroup called absent has none."""

    counts = True
    remedy = missing = "test on more images of"
    passes = "test images behind every subgroup's metrics: at least {minimum}"
    name: Literal["count"] = "count"
    minimum: int = Field(ge=1)  # test images of each subgroup

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        for name, n in counted(case.manifests).items():
            note = "" if n else "never tested"
            yield check(name, "test images", n, "at least", self.minimum, note=note)


def counted(manifests: Sequence[BundleManifest]) -> dict[str, int]:
    """The test images of each subgroup, 0 of one that was not tested or that the test calls absent."""
    absent = for_everybody(manifests).metrics.get("absent", ())
    absent = [name for name in absent if name not in (GLOBAL, UNDECLARED)]
    counts = {one.name: one.n for one in tested(manifests) if one.name != GLOBAL or not absent}
    return counts | {name: 0 for name in absent if name not in counts}


class CoverageGate(NumericGate):
    """How much less often than guaranteed a prediction set may hold the right class in any subgroup.

    The guarantee is 1 - alpha of the version that answers. A version that guarantees nothing, whose sets are
    full, is not applicable.
    """

    remedy = missing = "calibrate again on more images of"
    passes = (
        "share of every subgroup's test images whose prediction set holds the right class: at least "
        "what the version guarantees minus {slack:.3f}"
    )
    name: Literal["coverage"] = "coverage"
    slack: float = Field(ge=0, le=1)  # of the coverage guaranteed

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        for one in tested(case.manifests):
            conformal = one.manifest.conformal
            if conformal.guarantee == "none":
                why = "no coverage is guaranteed; the prediction sets are full"
                yield not_applicable("coverage", why, one.name)
            else:
                limit = max(0.0, 1 - conformal.alpha - self.slack)
                yield check(one.name, "coverage", one.figure("coverage"), "at least", limit)


class RiskGate(NumericGate):
    """Whether the conclusions of each subgroup are as seldom wrong as its version allows.

    Refused where the lower end of the 95 % interval lies above `target_risk`: then the guarantee is broken
    for certain. The upper end would be the wrong judge: 3 wrong of 60 answers reach to 0.139, so that a
    target of 0.1 would refuse nearly every honest test of a rare subgroup. The guarantee itself is made by
    an upper limit, at calibration. Without an interval the point decides.

    A subgroup of which nothing is concluded has no risk: not applicable, `min_answer_rate` judges it.
    """

    remedy = missing = "calibrate again on more images of"
    passes = (
        "lower end of the 95 % interval of the share of wrong ones among the conclusions of every "
        "subgroup: at most the target of the version"
    )
    name: Literal["risk"] = "risk"

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        measure = "share of wrong conclusions"
        for one in tested(case.manifests):
            risk, answered = one.figure("reported_risk"), one.figure("reported")
            if risk is None and answered is not None and not answered.value:
                yield not_applicable(measure, "nothing is concluded of any image", one.name)
            else:
                low = risk.interval[0] if risk and risk.interval else None
                target = one.manifest.conclusions.target_risk
                yield check(one.name, measure, risk, "at most", target, judged=low)


class ParityGate(NumericGate):
    """How far the exported graph's probabilities may lie from those of torch, for every version.

    A bundle holds the largest difference that was found when it was exported; one without it is refused.
    """

    remedy = missing = "export the model again for"
    digits = ".2g"
    passes = (
        "largest difference in a probability between ONNX and torch at export, of every version: at most "
        "{limit:.2g}"
    )
    name: Literal["parity"] = "parity"
    limit: float = Field(ge=0, le=1)  # of the largest difference in a probability

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each version."""
        measure = "difference of ONNX and torch"
        for one in case.manifests:
            note = "the bundle does not say how far they differ" if one.parity is None else ""
            yield check(one.subgroup.name, measure, one.parity, "at most", self.limit, note=note)


THRESHOLD_GATES: Final = (
    MinAnswerRateGate,
    CalibrationGate,
    WorstBalancedAccuracyGate,
    WorstMalignantSensitivityGate,
    MinSensitivityLowerBoundGate,
    CountGate,
    CoverageGate,
    RiskGate,
    ParityGate,
)

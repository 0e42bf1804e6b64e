"""The gates `coverage` and `risk`: test metrics of every subgroup against what each version guarantees.

The global version guarantees both over all images together; these gates ask for them in every subgroup.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from registry.gate_report import GateFinding
from registry.gates.gate import Case, NumericGate, answering, check, not_applicable, tested


class CoverageGate(NumericGate):
    """How much less often than guaranteed a prediction set may hold the right class in any subgroup.

    The guarantee is 1 - alpha of the version that answers. A version that guarantees nothing, whose sets are
    full, is not applicable.
    """

    remedy = missing = "calibrate again on more images of"
    name: Literal["coverage"] = "coverage"
    slack: float = Field(ge=0, le=1)  # of the coverage guaranteed

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "share of every subgroup's test images whose prediction set holds the right class: at least "
            f"what the version guarantees minus {self.slack:.3f}"
        )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        for name, (manifest, row) in answering(case.manifests).items():
            if manifest.conformal.guarantee == "none":
                why = "no coverage is guaranteed; the prediction sets are full"
                yield not_applicable("coverage", why, name)
            else:
                limit = max(0.0, 1 - manifest.conformal.alpha - self.slack)
                yield check(name, "coverage", tested(name, row, "coverage"), "at least", limit)


class RiskGate(NumericGate):
    """Whether the answers given to each subgroup are as seldom wrong as its version allows.

    Refused where the lower end of the 95 % interval lies above `target_risk`: then the guarantee is broken
    for certain. The upper end would be the wrong judge: 3 wrong of 60 answers reach to 0.139, so that a
    target of 0.1 would refuse nearly every honest test of a rare subgroup. The guarantee itself is made by
    an upper limit, at calibration. Without an interval the point decides.

    A subgroup that gets no answers has no risk: not applicable, `min_answer_rate` judges it.
    """

    remedy = missing = "calibrate again on more images of"
    name: Literal["risk"] = "risk"

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return (
            "lower end of the 95 % interval of the share of wrong answers among those given to every "
            "subgroup: at most the target of the version"
        )

    def findings(self, case: Case) -> Iterator[GateFinding]:
        """One finding for each subgroup."""
        for name, (manifest, row) in answering(case.manifests).items():
            risk, answered = tested(name, row, "reported_risk"), tested(name, row, "reported")
            if risk is None and answered is not None and not answered.value:
                yield not_applicable("share of wrong answers", "no image is answered", name)
            else:
                low = risk.interval[0] if risk and risk.interval else None
                target = manifest.abstention.target_risk
                yield check(name, "share of wrong answers", risk, "at most", target, judged=low)

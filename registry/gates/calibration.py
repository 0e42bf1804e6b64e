"""The gate `calibration`: the expected calibration error (ECE) of every subgroup at most `limit`.

How far confidence and accuracy lie apart on average; as the served graph answers, temperature included. A
subgroup without the figure is refused; where the test names no subgroup, all its pictures are judged. Noise
raises the figure, so that on few pictures the gate errs towards refusing.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import GateResult
from registry.gates.case import Case
from registry.gates.each_subgroup import against_limit
from registry.gates.figures import stand_or_total
from registry.gates.gate import GateConfig


class CalibrationGate(GateConfig):
    """How far confidence may lie from accuracy in any subgroup."""

    name: Literal["calibration"] = "calibration"
    limit: float = Field(ge=0, le=1)  # of the largest ECE over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"expected calibration error on every subgroup's test pictures: at most {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand_or_total(case.manifests, "ece")
        return against_limit(self.name, "calibration error", standings, "at most", self.limit)

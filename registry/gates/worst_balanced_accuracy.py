"""The gate `worst_balanced_accuracy`: the balanced accuracy of every subgroup at least `limit`.

The mean recall over classes, so that a model that calls everything a naevus does not pass. A subgroup without
the figure is refused; where the test names no subgroup, all its pictures are judged.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import GateResult
from registry.gates.case import Case
from registry.gates.each_subgroup import against_limit
from registry.gates.figures import stand_or_total
from registry.gates.gate import GateConfig


class WorstBalancedAccuracyGate(GateConfig):
    """How well the subgroup served worst must be served, each class counting alike."""

    name: Literal["worst_balanced_accuracy"] = "worst_balanced_accuracy"
    limit: float = Field(ge=0, le=1)  # of the least balanced accuracy over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"balanced test accuracy of every subgroup: at least {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand_or_total(case.manifests, "balanced_accuracy")
        return against_limit(self.name, "balanced accuracy", standings, "at least", self.limit)

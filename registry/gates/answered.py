"""The gate `answered`: of every subgroup's test pictures, at least the share `limit` gets an answer.

The others are referred to a clinician. A model that refers nearly everybody keeps every promise and helps
nobody; one that refers a single skin tone is of no use to it. A subgroup without the figure is refused: its
version was not calibrated, or tested on nobody. Where the test names no subgroup, all its pictures are
judged.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import GateResult
from registry.gates.case import Case
from registry.gates.each_subgroup import against_limit
from registry.gates.figures import stand_or_total
from registry.gates.gate import GateConfig


class AnsweredGate(GateConfig):
    """How many of every subgroup must get an answer."""

    name: Literal["answered"] = "answered"
    limit: float = Field(ge=0, le=1)  # of the least share over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"share of every subgroup's test pictures that is answered: at least {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        standings = stand_or_total(case.manifests, "reported")
        return against_limit(self.name, "share answered", standings, "at least", self.limit)

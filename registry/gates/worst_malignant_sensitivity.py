"""The gate `worst_malignant_sensitivity`: the share found of every subgroup's malignant pictures.

Found is a picture whose answer is any malignant class. A subgroup without the figure is refused: it was
tested on no malignant picture. Where every label says that it is not malignant the gate does not apply, and
where some say nothing it refuses; where the test names no subgroup, all its pictures are judged.
"""

from typing import Literal

from pydantic import Field

from registry.gate_report import GateResult
from registry.gates.case import Case
from registry.gates.each_subgroup import against_limit
from registry.gates.figures import stand_or_total
from registry.gates.gate import GateConfig
from registry.gates.malignancy import without_malignant


class WorstMalignantSensitivityGate(GateConfig):
    """How much of what is malignant must be found in every subgroup."""

    name: Literal["worst_malignant_sensitivity"] = "worst_malignant_sensitivity"
    limit: float = Field(ge=0, le=1)  # of the least sensitivity over subgroups

    @property
    def meaning(self) -> str:
        """What passes, in a sentence."""
        return f"share of every subgroup's malignant test pictures that is found: at least {self.limit:.3f}"

    def judge(self, case: Case) -> GateResult:
        """What the gate says of a release."""
        none = "so there is nothing malignant to find"
        if (said := without_malignant(self.name, case.manifests, self.limit, none)) is not None:
            return said
        standings = stand_or_total(case.manifests, "malignant_sensitivity")
        return against_limit(self.name, "malignant sensitivity", standings, "at least", self.limit)

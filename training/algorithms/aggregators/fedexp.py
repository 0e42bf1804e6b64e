"""FedExp: units weigh as the exponential of their loss (Xu et al. 2023, Tables II and III).

w_c = e^{m L_c} / Σ_i e^{m L_i}. m = 1 is the baseline of Table II, m ∈ {2, 3, 4} is "fixed m" of Table III.
Departures: none.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from training.algorithms.aggregators.base import ServerState
from training.algorithms.aggregators.by_unit import UnitAggregator, softmax


class FedExp(UnitAggregator):
    """Softmax of the scaled training losses."""

    name: Literal["fedexp"] = "fedexp"
    m: float = Field(1.0, gt=0)  # the fixed scale of the losses

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """e^{m L_c} / Σ_i e^{m L_i}."""
        return softmax({unit: self.m * loss for unit, loss in losses.items()}), state

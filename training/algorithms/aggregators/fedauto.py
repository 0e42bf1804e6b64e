"""FedAuto: loss-weighted averaging whose strength adapts (Xu et al. 2023, Algorithm 1).

m starts at 1. Each round, after all losses are in: if L_max > Q · L_min and m < M then m ← m + 1. Then
w_c = e^{m L_c} / Σ_i e^{m L_i} and θ ← Σ_c w_c θ_c (Eq. 1).

Departures: m stops at M, as the text says ("M is the upper bound of m"); the pseudo-code's test `m ≤ M` would
let it reach M + 1. Section III says that m shrinks again when the losses come closer; Algorithm 1 only raises
it, and Algorithm 1 is what is done here.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from training.algorithms.aggregators.base import ServerState
from training.algorithms.aggregators.by_unit import UnitAggregator, softmax


class FedAuto(UnitAggregator):
    """Softmax of the training losses, scaled by an m that grows while the losses are far apart."""

    name: Literal["fedauto"] = "fedauto"
    loss_ratio: float = Field(1.5, gt=1)  # Q: the spread of losses that raises m
    max_scale: int = Field(3, ge=1)  # M: the upper bound of m

    def initial_state(self) -> ServerState:
        """M = 1."""
        return {"m": 1.0}

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """Raise m if the losses call for it, then e^{m L_c} / Σ_i e^{m L_i}."""
        m = state["m"]
        if max(losses.values()) > self.loss_ratio * min(losses.values()) and m < self.max_scale:
            m += 1
        return softmax({unit: m * loss for unit, loss in losses.items()}), {"m": m}

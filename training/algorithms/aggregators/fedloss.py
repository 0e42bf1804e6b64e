"""FedLoss: units weigh as their loss (baseline of Xu et al. 2023, Table II).

w_c = L_c / Σ_i L_i. Departures: losses that are all zero give equal weights, where the formula is undefined.
"""

from collections.abc import Mapping
from typing import Literal

from training.algorithms.aggregators.base import ServerState
from training.algorithms.aggregators.by_unit import UnitAggregator


class FedLoss(UnitAggregator):
    """Weights in proportion to the training loss."""

    name: Literal["fedloss"] = "fedloss"

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """L_c / Σ_i L_i."""
        total = sum(losses.values())
        if total == 0:
            return {unit: 1 / len(losses) for unit in losses}, state
        return {unit: loss / total for unit, loss in losses.items()}, state

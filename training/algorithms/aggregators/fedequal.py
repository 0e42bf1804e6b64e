"""FedEqual: every unit weighs the same (baseline of Xu et al. 2023, Table II).

w_c = 1 / |C|. Departures: with `unit: subgroup` the equal weights are the subgroups', spread to the clients
that hold them; with one subgroup per client that is the paper's.
"""

from collections.abc import Mapping
from typing import Literal

from training.algorithms.aggregators.base import ServerState
from training.algorithms.aggregators.by_unit import UnitAggregator


class FedEqual(UnitAggregator):
    """Equal weights."""

    name: Literal["fedequal"] = "fedequal"

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """1 / |C| for every unit."""
        return {unit: 1 / len(losses) for unit in losses}, state

"""FedAvg: clients weigh as much as they hold (McMahan et al. 2017, Algorithm 1).

θ ← Σ_c (N_c / Σ_i N_i) θ_c over the clients that answered. Departures: none.
"""

from collections.abc import Sequence
from typing import Literal

from training.algorithms.aggregators.base import Aggregator, Mixture, Report, ServerState


class FedAvg(Aggregator):
    """Weights in proportion to the number of training pictures."""

    name: Literal["fedavg"] = "fedavg"

    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
        """w_c = N_c / Σ_i N_i."""
        total = sum(report.total for report in reports)
        return Mixture({report.client: report.total / total for report in reports}), state

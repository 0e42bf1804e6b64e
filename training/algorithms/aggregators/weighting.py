"""Averages with fixed or loss-dependent weights: FedAvg, and the rules of Xu et al. (2023)."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from training.algorithms.aggregators.base import (
    AggregationWeights,
    Aggregator,
    Report,
    ServerState,
    UnitAggregator,
    softmax,
)


class FedAvg(Aggregator):
    """FedAvg: clients weigh as much as they hold (McMahan et al. 2017, Algorithm 1).

    θ ← Σ_c (N_c / Σ_i N_i) θ_c over the clients that answered. Departures: none.
    """

    name: Literal["fedavg"] = "fedavg"

    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
        """w_c = N_c / Σ_i N_i."""
        total = sum(report.total for report in reports)
        return AggregationWeights({report.client: report.total / total for report in reports}), state


class FedEqual(UnitAggregator):
    """FedEqual: every unit weighs the same (baseline of Xu et al. 2023, Table II).

    w_c = 1 / |C|. Departures: with `unit: subgroup` the equal weights are the subgroups', spread to the
    clients that hold them; with one subgroup per client that is the paper's.
    """

    name: Literal["fedequal"] = "fedequal"

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """1 / |C| for every unit."""
        return {unit: 1 / len(losses) for unit in losses}, state


class FedLoss(UnitAggregator):
    """FedLoss: units weigh as their loss (baseline of Xu et al. 2023, Table II).

    w_c = L_c / Σ_i L_i. Departures: losses that are all zero give equal weights, where the formula is
    undefined.
    """

    name: Literal["fedloss"] = "fedloss"

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """L_c / Σ_i L_i."""
        total = sum(losses.values())
        if total == 0:
            return {unit: 1 / len(losses) for unit in losses}, state
        return {unit: loss / total for unit, loss in losses.items()}, state


class FedExp(UnitAggregator):
    """FedExp: units weigh as the exponential of their loss (Xu et al. 2023, Tables II and III).

    w_c = e^{m L_c} / Σ_i e^{m L_i}. m = 1 is the baseline of Table II, m ∈ {2, 3, 4} is "fixed m" of Table
    III. Departures: none.
    """

    name: Literal["fedexp"] = "fedexp"
    m: float = Field(1.0, gt=0)  # the fixed scale of the losses

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """e^{m L_c} / Σ_i e^{m L_i}."""
        return softmax({unit: self.m * loss for unit, loss in losses.items()}), state


class FedAuto(UnitAggregator):
    """FedAuto: loss-weighted averaging whose strength adapts (Xu et al. 2023, Algorithm 1).

    m starts at 1. Each round, after all losses are in: if L_max > Q · L_min and m < M then m ← m + 1. Then
    w_c = e^{m L_c} / Σ_i e^{m L_i} and θ ← Σ_c w_c θ_c (Eq. 1).

    Departures: m stops at M, as the text says ("M is the upper bound of m"); the pseudo-code's test `m ≤ M`
    would let it reach M + 1. Section III says that m shrinks again when the losses come closer; Algorithm 1
    only raises it, and Algorithm 1 is what is done here.
    """

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

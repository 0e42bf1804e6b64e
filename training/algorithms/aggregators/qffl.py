"""q-FFL by q-FedAvg: the worse a unit is served, the more its change counts (Li et al. 2020, Algorithm 2).

With F_k the loss of the received model on the training pictures of k, and Lip a bound on how fast gradients
change: Δw_k = Lip (θ^t − θ_k), Δ_k = F_k^q Δw_k, h_k = q F_k^{q−1} ‖Δw_k‖² + Lip F_k^q, and
θ^{t+1} = θ^t − Σ_k Δ_k / Σ_k h_k. Here as a mixture: θ_k weighs Lip F_k^q / H with H = Σ_k h_k, and θ^t what
is left to 1. q = 0 is FedEqual.

Departures: F_k is F_k + 1e-10, as in the authors' code. ‖Δw_k‖ is over parameters; normalisation statistics
that travel follow the same mixture. Subgroups as units are not in the paper: F_s is the mean over the
clients that hold s, its change the mean of theirs, Δw_s = Σ_c (N_{c,s} / N_s) Δw_c, and in h_s the mean of
their ‖Δw_c‖² stands for ‖Δw_s‖², which it bounds from above (the square is convex), so that a step is never
longer than with the norm itself. With one subgroup per client it is the paper's.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field

from training.algorithms.aggregators.base import (
    RECEIVED_LOSSES,
    SQUARED_CHANGE,
    Circumstances,
    Mixture,
    Need,
    Report,
    ServerState,
)
from training.algorithms.aggregators.by_unit import ByUnit, Share, losses_by_unit, spread

TINY = 1e-10  # keeps F^{q−1} finite where a loss is 0


class QFFL(ByUnit):
    """Steps weighed by the q-th power of the received model's loss."""

    needs: ClassVar[frozenset[Need]] = frozenset({RECEIVED_LOSSES, SQUARED_CHANGE})
    name: Literal["q-ffl"] = "q-ffl"
    q: float = Field(1.0, ge=0)
    lipschitz: float | None = Field(None, gt=0)  # Lip: by default 1/η, of the base learning rate

    def for_job(self, circumstances: Circumstances) -> Self:
        """Lip = 1/η unless the job gives one."""
        rule = super().for_job(circumstances)
        lipschitz = 1 / circumstances.learning_rate if self.lipschitz is None else self.lipschitz
        return rule.model_copy(update={"lipschitz": lipschitz})

    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
        """Lip F_k^q / H of each unit, spread over the clients that hold it; the last model keeps the rest.

        Both sides of the fraction are divided by (max F)^q, so that no power overflows.
        """
        assert self.lipschitz is not None, "a plan settles it by for_job"
        shares = self.shares(reports)
        losses = {unit: loss + TINY for unit, loss in losses_by_unit(shares).items()}
        top = max(losses.values())
        powers = {unit: (loss / top) ** self.q for unit, loss in losses.items()}  # F_k^q
        total = 0.0  # H
        for unit, held in shares.items():
            change = self.lipschitz**2 * mean_squared_change(held)  # ‖Δw_k‖²
            total += powers[unit] * (self.q * change / losses[unit] + self.lipschitz)
        weights = {unit: self.lipschitz * power / total for unit, power in powers.items()}
        return Mixture(spread(weights, shares), max(0.0, 1 - sum(weights.values()))), state


def mean_squared_change(shares: Sequence[Share]) -> float:
    """Σ_c N_{c,s} ‖θ^t − θ_c‖² / N_s."""
    total = 0.0
    for share in shares:
        assert share.squared_change is not None, "no report comes without what an aggregator needs"
        total += share.n * share.squared_change
    return total / sum(share.n for share in shares)

"""Agnostic federated learning: the mixture of clients that fares worst (Mohri et al. 2019, Algorithm 1).

A mixture λ over the units starts uniform. Each round θ ← Σ_k λ_k θ_k with the λ that precedes it, and then
λ ← Π(λ + γ L), L_k being the loss of the received model on the training pictures of k and Π the projection
onto the simplex. The authors take one step of SGD a round (`samples` of the objective equal to its
`batch_size`) and return the mean of the models of all rounds (`keep: average` of the stage).

Departures: a unit that did not answer keeps its λ; those that answered share theirs, renormalised for the
weights of the round and projected onto a simplex of the mass they had. Where they had none, they weigh the
same. The default of γ is ours.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from training.algorithms.aggregators.base import RECEIVED_LOSSES, Circumstances, Need, ServerState
from training.algorithms.aggregators.by_unit import UnitAggregator

LAMBDA = "lambda/"  # in the server state, before a unit's name


class AFL(UnitAggregator):
    """A mixture of the units that climbs along the losses of the received model."""

    needs: ClassVar[frozenset[Need]] = frozenset({RECEIVED_LOSSES})
    name: Literal["afl"] = "afl"
    step_size: float = Field(0.1, ge=0)  # γ: how fast λ climbs; 0 leaves it uniform
    _units: tuple[str, ...] = PrivateAttr(())

    def for_job(self, circumstances: Circumstances) -> Self:
        """The units known, whoever answers in the first round."""
        rule = super().for_job(circumstances)
        rule._units = tuple(circumstances.clients if rule.unit == "client" else circumstances.subgroups)
        return rule

    def initial_state(self) -> ServerState:
        """λ = 1 / |units|."""
        return {LAMBDA + unit: share for unit, share in with_newcomers({}, self._units).items()}

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """λ over those that answered, and Π(λ + γ L) for the next round."""
        known = {key.removeprefix(LAMBDA): value for key, value in state.items()}
        mixture = with_newcomers(known, losses)
        mass = sum(mixture[unit] for unit in losses)
        weights = {unit: mixture[unit] / mass if mass > 0 else 1 / len(losses) for unit in losses}
        climbed = {unit: mixture[unit] + self.step_size * loss for unit, loss in losses.items()}
        mixture |= project(climbed, mass)
        return weights, {LAMBDA + unit: share for unit, share in mixture.items()}


def with_newcomers(mixture: Mapping[str, float], units: Iterable[str]) -> dict[str, float]:
    """The mixture over known and new units; a new one enters with 1 / |all|, and the others make room."""
    new = [unit for unit in units if unit not in mixture]
    count = len(mixture) + len(new)
    kept = {unit: share * len(mixture) / count for unit, share in mixture.items()}
    return {**kept, **dict.fromkeys(new, 1 / count)}


def project(point: Mapping[str, float], mass: float) -> dict[str, float]:
    """The nearest point with no negative coordinate and with sum `mass` (Duchi et al. 2008, Figure 1).

    max(v − θ, 0) with θ = (Σ_{i≤ρ} u_i − mass) / ρ, u being v in descending order and ρ the largest j for
    which u_j > (Σ_{i≤j} u_i − mass) / j. To move all coordinates alike changes nothing, so the largest is
    made 0: no small mass is lost beside large losses.
    """
    if mass <= 0:
        return dict.fromkeys(point, 0.0)
    top = max(point.values())
    shifted = {unit: value - top for unit, value in point.items()}
    total, threshold = 0.0, 0.0
    for place, value in enumerate(sorted(shifted.values(), reverse=True), start=1):
        total += value
        if value <= (total - mass) / place:
            break
        threshold = (total - mass) / place
    return {unit: max(value - threshold, 0.0) for unit, value in shifted.items()}

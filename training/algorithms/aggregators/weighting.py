"""Averages with fixed or loss-dependent weights.

FedAvg, the rules of Xu et al. (2023), and weights for those that fare worst: q-FFL, agnostic federated
learning, group DRO.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import log, sqrt
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from training.algorithms.aggregators.base import (
    RECEIVED_LOSSES,
    SQUARED_CHANGE,
    AggregationWeights,
    Aggregator,
    ByUnit,
    JobContext,
    Need,
    Report,
    ServerState,
    Share,
    UnitAggregator,
    losses_by_unit,
    softmax,
    spread,
)
from training.data.cells import CellClasses
from training.errors import JobError


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


TINY = 1e-10  # keeps F^{q−1} finite where a loss is 0


class QFFL(ByUnit):
    """q-FFL by q-FedAvg: units count by the power of their loss (Li et al. 2020, Algorithm 2).

    With F_k the loss of the received model on the training pictures of k, and Lip a bound on how fast
    gradients change: Δw_k = Lip (θ^t − θ_k), Δ_k = F_k^q Δw_k, h_k = q F_k^{q−1} ‖Δw_k‖² + Lip F_k^q, and
    θ^{t+1} = θ^t − Σ_k Δ_k / Σ_k h_k. Here as a mixture: θ_k weighs Lip F_k^q / H with H = Σ_k h_k, and θ^t
    what is left to 1. q = 0 is FedEqual.

    Departures: F_k is F_k + 1e-10, as in the authors' code. ‖Δw_k‖ is over parameters; normalisation
    statistics that travel follow the same mixture. Subgroups as units are not in the paper: F_s is the mean
    over the clients that hold s, its change the mean of theirs, Δw_s = Σ_c (N_{c,s} / N_s) Δw_c, and in h_s
    the mean of their ‖Δw_c‖² replaces ‖Δw_s‖², which it bounds from above (the square is convex), so that a
    step is never longer than with the norm itself. With one subgroup per client it is the paper's.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({RECEIVED_LOSSES, SQUARED_CHANGE})
    name: Literal["q-ffl"] = "q-ffl"
    q: float = Field(1.0, ge=0)
    lipschitz: float | None = Field(None, gt=0)  # Lip: by default 1/η, of the base learning rate

    def for_job(self, context: JobContext) -> Self:
        """Lip = 1/η unless the job gives one."""
        rule = super().for_job(context)
        lipschitz = 1 / context.learning_rate if self.lipschitz is None else self.lipschitz
        return rule.model_copy(update={"lipschitz": lipschitz})

    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
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
        return AggregationWeights(spread(weights, shares), max(0.0, 1 - sum(weights.values()))), state


def mean_squared_change(shares: Sequence[Share]) -> float:
    """Σ_c N_{c,s} ‖θ^t − θ_c‖² / N_s."""
    total = 0.0
    for share in shares:
        assert share.squared_change is not None, "no report comes without what an aggregator needs"
        total += share.n * share.squared_change
    return total / sum(share.n for share in shares)


LAMBDA = "lambda/"  # in the server state, before a unit's name


class AFL(UnitAggregator):
    """Agnostic federated learning: the mixture of clients that fares worst (Mohri et al. 2019, Algorithm 1).

    A mixture λ over the units starts uniform. Each round θ ← Σ_k λ_k θ_k with the λ that precedes it, and
    then λ ← Π(λ + γ L), L_k being the loss of the received model on the training pictures of k and Π the
    projection onto the simplex. The authors take one step of SGD a round (`samples` of the objective equal to
    its `batch_size`) and return the mean of the models of all rounds (`keep: average` of the stage).

    Departures: a unit that did not answer keeps its λ; those that answered share theirs, renormalised for the
    weights of the round and projected onto a simplex of the mass they had. Where they had none, they weigh
    the same. The default of γ is ours.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({RECEIVED_LOSSES})
    name: Literal["afl"] = "afl"
    step_size: float = Field(0.1, ge=0)  # γ: how fast λ climbs; 0 leaves it uniform
    _units: tuple[str, ...] = PrivateAttr(())

    def for_job(self, context: JobContext) -> Self:
        """The units, known before the first round; they do not depend on which clients answer in it."""
        rule = super().for_job(context)
        rule._units = tuple(context.clients if rule.unit == "client" else context.subgroups)
        return rule

    def initial_state(self) -> ServerState:
        """λ = 1 / |units|."""
        return {LAMBDA + unit: share for unit, share in with_newcomers({}, self._units).items()}

    def unit_weights(
        self, losses: Mapping[str, float], state: ServerState
    ) -> tuple[Mapping[str, float], ServerState]:
        """λ over those that answered, and Π(λ + γ L) for the next round."""
        known = {key.removeprefix(LAMBDA): value for key, value in state.items()}
        aggregation = with_newcomers(known, losses)
        mass = sum(aggregation[unit] for unit in losses)
        weights = {unit: aggregation[unit] / mass if mass > 0 else 1 / len(losses) for unit in losses}
        climbed = {unit: aggregation[unit] + self.step_size * loss for unit, loss in losses.items()}
        aggregation |= project(climbed, mass)
        return weights, {LAMBDA + unit: share for unit, share in aggregation.items()}


def with_newcomers(aggregation: Mapping[str, float], units: Iterable[str]) -> dict[str, float]:
    """The mixture over known and new units; a new one enters with 1 / |all|, and the others make room."""
    new = [unit for unit in units if unit not in aggregation]
    count = len(aggregation) + len(new)
    kept = {unit: share * len(aggregation) / count for unit, share in aggregation.items()}
    return {**kept, **dict.fromkeys(new, 1 / count)}


def project(point: Mapping[str, float], mass: float) -> dict[str, float]:
    """The nearest point with no negative coordinate and with sum `mass` (Duchi et al. 2008, Figure 1).

    max(v − θ, 0) with θ = (Σ_{i≤ρ} u_i − mass) / ρ, u being v in descending order and ρ the largest j for
    which u_j > (Σ_{i≤j} u_i − mass) / j. To move all coordinates alike changes nothing, so the largest is
    made 0: a small mass is not lost to rounding next to large losses.
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


Q = "q/"  # in the server state, before a cell's name


class GroupDRO(Aggregator):
    """Group DRO: the worst cells of class and subgroup count most (Sagawa et al. 2020, Algorithm 1).

    Of m cells, n_g pictures in cell g and n in all, with a mixture q that starts uniform, a round is

        θ ← θ − η_θ ∇ Σ_g q_g L_g(θ)
        q_g ← q_g exp(η_q (L_g(θ) + C / √n_g)),   q ← q / Σ_g q_g

    with L_g the mean loss over cell g. A cell lies across clients, so its weight is within what each of them
    minimises: a picture of cell g counts w_g = q_g n / n_g, and the mean over all pictures of all clients is
    Σ_g q_g L_g. Client c divides by the mean w_c of its own pictures, and weighs N_c w_c in the average:
    where each takes one step of SGD over all its pictures, a round is the step above, and a client of the
    worst cells counts more under optimizers too that do not heed how large a loss is (Adam). C / √n_g
    (Equation 5) makes up for how much worse small cells do on new pictures than on those trained on.

    Departures: L_g is of the received model over all training pictures, and moves q after the round's steps,
    not before. A cell of which no client holds `privacy.min_count` pictures, so that none may report its
    loss, has no part in q; its pictures count 1, and w_g = q_g n' / n_g for the others, with n' pictures in
    all of them. A cell whose loss no client reports in a round (its clients did not answer or have too few
    patients) keeps its q; the others share theirs. Where `sampling` is not uniform, it says which pictures of
    a cell are drawn, and no more what the cell counts (`training.data.cells`). η_q is for a round, its
    default ours.

    Attributes:
        cells: how classes are divided into cells: by malignancy, or each class by itself.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({RECEIVED_LOSSES})
    name: Literal["group-dro"] = "group-dro"
    cells: CellClasses = "malignancy"
    step_size: float = Field(0.1, ge=0)  # η_q: how fast q climbs; 0 leaves it uniform
    adjustment: float = Field(0.0, ge=0)  # C: how much more small cells count
    _held: Mapping[str, Mapping[str, int]] = PrivateAttr({})  # n_g of each client, of the cells in q
    _others: Mapping[str, Mapping[str, int]] = PrivateAttr({})  # the same of the cells that are not

    @property
    def weighs_cells(self) -> CellClasses | None:
        """By what it tells classes apart."""
        return self.cells

    def for_job(self, context: JobContext) -> Self:
        """The cells known, and who holds how much of each.

        Raises:
            JobError: fewer than two of them have enough pictures for their loss to be reported.
        """
        least = max(context.min_count, 1)
        rule = self.model_copy()
        rule._held = {
            cell: held for cell, held in context.cells.items() if max(held.values(), default=0) >= least
        }
        sizes = {cell: sum(held.values()) for cell, held in context.cells.items()}
        rule._others = {
            cell: held for cell, held in context.cells.items() if sizes[cell] and cell not in rule._held
        }
        if len(rule._held) < 2:
            found = "; ".join(f"{cell}: {n}" for cell, n in sizes.items() if n)
            raise JobError(
                f"aggregator {self.name} weighs cells of which a client holds {least} labelled training "
                f"pictures or more (privacy.min_count), and needs two; pictures of all clients are {found}. "
                "Lower privacy.min_count, or use the aggregator fedavg"
            )
        return rule

    def initial_state(self) -> ServerState:
        """1 / m."""
        return {Q + cell: 1 / len(self._held) for cell in self._held}

    def cell_weights(self, state: ServerState) -> Mapping[str, float]:
        """w_g = q_g n' / n_g; a cell that went with a dismissed client leaves its q to the others."""
        aggregation = {cell: state[Q + cell] for cell in self._sizes}
        mass, whole = sum(aggregation.values()), sum(self._sizes.values())
        shares = {cell: q / mass if mass > 0 else 1 / len(aggregation) for cell, q in aggregation.items()}
        return {cell: shares[cell] * whole / n for cell, n in self._sizes.items()}

    def aggregate(
        self, reports: Sequence[Report], state: ServerState
    ) -> tuple[AggregationWeights, ServerState]:
        """N_c w_c of each client, by the q that it was sent, and q for the next round."""
        scores = {
            cell: log(state[Q + cell]) + self.step_size * (loss + self.adjustment / sqrt(self._sizes[cell]))
            for cell, loss in self._losses(reports).items()
            if state[Q + cell] > 0  # or it has no logarithm, and no factor brings it back
        }
        mass = sum(state[Q + cell] for cell in scores)
        climbed = softmax(scores) if scores else {}
        return self._mixture(reports, state), {
            **state,
            **{Q + cell: mass * share for cell, share in climbed.items()},
        }

    def facts(self, state: ServerState) -> Mapping[str, Any]:
        """The cells, their pictures, and q in the end; none where a cell has no part in it."""
        sizes = {cell: sum(held.values()) for cell, held in {**self._held, **self._others}.items()}
        return {"cells": {cell: {"n": n, "q": state.get(Q + cell)} for cell, n in sizes.items()}}

    @property
    def _sizes(self) -> Mapping[str, int]:
        """n_g of the cells in q."""
        return {cell: sum(held.values()) for cell, held in self._held.items()}

    def _mixture(self, reports: Sequence[Report], state: ServerState) -> AggregationWeights:
        """N_c w_c = Σ_g w_g n_{c,g}, as shares; those of FedAvg where nothing is left of q at any client."""
        weights = self.cell_weights(state)
        held = {**self._held, **self._others}
        masses = {
            report.client: sum(weights.get(cell, 1.0) * n.get(report.client, 0) for cell, n in held.items())
            for report in reports
        }
        total = sum(masses.values())
        if total <= 0:
            return FedAvg().aggregate(reports, {})[0]
        return AggregationWeights({client: mass / total for client, mass in masses.items()})

    def _losses(self, reports: Sequence[Report]) -> Mapping[str, float]:
        """L_g over the pictures of the clients that reported it; a cell that none reported is absent."""
        losses = {}
        for cell, held in self._held.items():
            told = [
                (held.get(report.client, 0), report.received_losses[cell])
                for report in reports
                if cell in report.received_losses
            ]
            n = sum(n for n, _ in told)
            if n:
                losses[cell] = sum(n * loss for n, loss in told) / n
        return losses

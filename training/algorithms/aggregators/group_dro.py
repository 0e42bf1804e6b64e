"""Group DRO: the cells of class and subgroup that fare worst count most (Sagawa et al. 2020, Algorithm 1).

Of m cells, n_g pictures in cell g and n in all, with a mixture q that starts uniform, a round is

    θ ← θ − η_θ ∇ Σ_g q_g L_g(θ)
    q_g ← q_g exp(η_q (L_g(θ) + C / √n_g)),   q ← q / Σ_g q_g

with L_g the mean loss over cell g. A cell lies across clients, so its weight is within what each of them
minimises: a picture of cell g counts w_g = q_g n / n_g, and the mean over all pictures of all clients is
Σ_g q_g L_g. Client c divides by the mean w_c of its own pictures, and weighs N_c w_c in the average: where
each takes one step of SGD over all its pictures, a round is the step above, and a client of the worst cells
counts more under optimizers too that do not heed how large a loss is (Adam). C / √n_g (Equation 5) makes up
for how much worse small cells do on new pictures than on those trained on.

Departures: L_g is of the received model over all training pictures, and moves q after the round's steps,
not before. A cell of which no client holds `privacy.min_count` pictures, so that none may tell its loss, has
no part in q; its pictures count 1, and w_g = q_g n' / n_g for the others, with n' pictures in all of them. A
cell of which nobody tells the loss in a round, since who holds it did not answer or has too few patients,
keeps its q; the others share theirs. Where `sampling` is not uniform, it says which pictures of a cell are
drawn, and no more what the cell counts (`training.data.cells`). η_q is for a round, its default ours.
"""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from training.algorithms.aggregators.base import (
    RECEIVED_LOSSES,
    Aggregator,
    Circumstances,
    Mixture,
    Need,
    Report,
    ServerState,
)
from training.algorithms.aggregators.by_unit import softmax
from training.algorithms.aggregators.fedavg import FedAvg
from training.data.cells import CellClasses
from training.errors import JobError

Q = "q/"  # in the server state, before a cell's name


class GroupDRO(Aggregator):
    """A mixture of cells that climbs along the received model's losses; clients weigh their pictures by it.

    Attributes:
        cells: what tells classes apart: their malignancy, or each class by itself.
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

    def for_job(self, circumstances: Circumstances) -> Self:
        """The cells known, and who holds how much of each.

        Raises:
            JobError: fewer than two of them have enough pictures for their loss to be told.
        """
        least = max(circumstances.min_count, 1)
        rule = self.model_copy()
        rule._held = {
            cell: held for cell, held in circumstances.cells.items() if max(held.values(), default=0) >= least
        }
        sizes = {cell: sum(held.values()) for cell, held in circumstances.cells.items()}
        rule._others = {
            cell: held for cell, held in circumstances.cells.items() if sizes[cell] and cell not in rule._held
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
        mixture = {cell: state[Q + cell] for cell in self._sizes}
        mass, whole = sum(mixture.values()), sum(self._sizes.values())
        shares = {cell: q / mass if mass > 0 else 1 / len(mixture) for cell, q in mixture.items()}
        return {cell: shares[cell] * whole / n for cell, n in self._sizes.items()}

    def weigh(self, reports: Sequence[Report], state: ServerState) -> tuple[Mixture, ServerState]:
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

    def _mixture(self, reports: Sequence[Report], state: ServerState) -> Mixture:
        """N_c w_c = Σ_g w_g n_{c,g}, as shares; those of FedAvg where nothing is left of q at any client."""
        weights = self.cell_weights(state)
        held = {**self._held, **self._others}
        masses = {
            report.client: sum(weights.get(cell, 1.0) * n.get(report.client, 0) for cell, n in held.items())
            for report in reports
        }
        total = sum(masses.values())
        if total <= 0:
            return FedAvg().weigh(reports, {})[0]
        return Mixture({client: mass / total for client, mass in masses.items()})

    def _losses(self, reports: Sequence[Report]) -> Mapping[str, float]:
        """L_g over the pictures of the clients that told it; a cell of which none did is absent."""
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

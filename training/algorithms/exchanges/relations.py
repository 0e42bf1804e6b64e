"""Relations: how classes resemble each other, from clients with labels to those without (Liu et al. 2021).

A client k that holds labels sends its relation matrix M_k `(classes, classes)`, whose row c is what its model
says, softened, of its pictures of class c. The server sends all clients

    M = (1/|L|) Σ_{k ∈ L} M_k

for L the clients with labels that answered in the newest round in which any did. Until then nothing travels.

Every matrix counts alike, however many pictures are behind it. A class that a client does not hold is a
uniform row of its matrix and counts as any other row: the fewer of L hold a class, the less M says of it. The
server could leave such rows out only if the clients disclosed which classes they hold.

What this does not hide: a uniform row tells the server that the client holds no picture of that class, and
with one client in L the others see that too.

Departures: none.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from training.algorithms.exchanges.base import PREFIX, Exchange, Parcel, ServerContext, Shared
from training.errors import MessageError
from training.messages import Tensors, Update

RELATIONS = "relations"  # the one tensor that travels, `(classes, classes)`
TOLERANCE = 1e-3  # how far from 1 a row's sum may be
TOTAL, COUNT, ROUND = "total", "count", "round"  # what the server remembers: Σ M_k in float64, |L|, and when


class SharedRelations(Exchange):
    """The mean relation matrix goes out, those of clients with labels come back."""

    shared: ClassVar[Shared | None] = "relations"
    comes_back: ClassVar[bool] = True
    name: Literal["relations"] = "relations"

    def outgoing(
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """M, once there is one; the note says of how many clients and of which round it is."""
        if not memory:
            return Parcel()
        note = {"clients": int(memory[COUNT]), "round": int(memory[ROUND])}
        return Parcel({RELATIONS: mean_relations(memory).float()}, note)

    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """The sum with this client's matrix; the first of a round replaces what was there."""
        if PREFIX + RELATIONS not in update.tensors:
            return memory
        matrix = update.tensors[PREFIX + RELATIONS].double()
        if memory and int(memory[ROUND]) == update.round:
            self.check(update, memory)
            return {**memory, TOTAL: memory[TOTAL] + matrix, COUNT: memory[COUNT] + 1}
        return {TOTAL: matrix, COUNT: torch.tensor(1), ROUND: torch.tensor(update.round)}

    def check(self, update: Update, memory: Tensors) -> None:
        """Refuse what is neither nothing nor one matrix of rows that sum to 1, as large as those before."""
        found = [name.removeprefix(PREFIX) for name in update.tensors if name.startswith(PREFIX)]
        if not found:
            return
        if found != [RELATIONS]:
            raise MessageError(
                f"{update.client} sent {sorted(found)} to the exchange; expected `{RELATIONS}` alone, "
                "or nothing"
            )
        matrix = update.tensors[PREFIX + RELATIONS]
        if matrix.dtype != torch.float32 or matrix.ndim != 2 or not 0 < matrix.shape[0] == matrix.shape[1]:
            raise MessageError(
                f"{update.client} sent relations as {matrix.dtype} {tuple(matrix.shape)}; expected float32 "
                "(classes, classes)"
            )
        if memory and memory[TOTAL].shape != matrix.shape:
            raise MessageError(
                f"{update.client} sent relations of {len(matrix)} classes; those before were of "
                f"{len(memory[TOTAL])}. Do all sites run the same job?"
            )
        sums = matrix.double().sum(dim=1)
        astray = ~((sums - 1).abs() <= TOLERANCE) | (matrix < 0).any(dim=1)
        if bool(astray.any()):
            first = int(astray.nonzero()[0])
            raise MessageError(
                f"{update.client} sent {int(astray.sum())} rows of relations that are no probabilities, the "
                f"first with least value {matrix[first].min().item():g} and sum {sums[first].item():g}; "
                f"expected at least 0, and 1 within {TOLERANCE:g}. It may have diverged"
            )

    def facts(self, memory: Tensors) -> Mapping[str, Any]:
        """The last M, and of how many clients it is."""
        if not memory:
            return {}
        matrix = [[round(value, 6) for value in row] for row in mean_relations(memory).tolist()]
        return {"relations": {"clients": int(memory[COUNT]), "matrix": matrix}}


def mean_relations(memory: Tensors) -> Tensor:
    """M `(classes, classes)` in float64."""
    return memory[TOTAL] / memory[COUNT]

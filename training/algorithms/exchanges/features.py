"""Shared features: every client gets the momentum features of all others as negatives (Wu et al. 2022).

The server keeps the bank Q_{l,c} that each client c sent last, and sends client i the others' (Eq. 2)

    Q_{r,i} = { Q_{l,c} | c ≠ i }

as one tensor without names or counts. Its rows are sorted by their bytes, so that their order follows from
the set of rows alone and discloses nothing of whose they are; any client that knows the job's seed could undo
a shuffle with it.

What this does not hide: features are personal data, from which pictures may be distinguished or partly
reconstructed. The server sees whose each bank is. With two clients all that arrives is the other one's; with
more, features of one client resemble each other, and clients that put theirs together see the rest. How many
rows arrive tells how many pictures the others hold, up to their banks' sizes, unless `limit` is lower.

Departures: before the first round every client sends features from the initial weights; the paper starts
each round with an upload. A client that is not asked in a round is there with the bank that it sent last.
"""

from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from training.algorithms.exchanges.base import PREFIX, Exchange, Parcel, ServerContext, Shared
from training.errors import MessageError
from training.messages import Tensors, Update

FEATURES = "features"  # the one tensor that travels, `(features, width)`
TOLERANCE = 1e-3  # how far from 1 a feature's length may be


class SharedFeatures(Exchange):
    """The others' features go out, a client's own come back.

    Attributes:
        limit: at most so many features go to a client, drawn uniformly in each round; None for all.
    """

    shared: ClassVar[Shared | None] = "features"
    comes_back: ClassVar[bool] = True
    opens: ClassVar[bool] = True
    name: Literal["features"] = "features"
    limit: int | None = Field(None, ge=1)

    def outgoing(
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """Q_{r,i}, sorted; without a row where there is no other client."""
        banks = [bank for sender, bank in memory.items() if sender != client]
        if not banks:
            width = memory[client].shape[1] if client in memory else 0
            return Parcel({FEATURES: torch.empty(0, width)})
        union = in_order_of_bytes(torch.cat(banks))
        if self.limit is not None and len(union) > self.limit:
            drawn = random.choice(len(union), size=self.limit, replace=False)
            union = union[torch.from_numpy(np.sort(drawn))]
        return Parcel({FEATURES: union})

    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """The banks with this client's newest in place of its last."""
        # A copy: what was read from a file that waited on disk would hold on to all of it.
        return {**memory, update.client: features_in(update).clone()}

    def check(self, update: Update, memory: Tensors) -> None:
        """Refuse what is not one tensor of features of length 1, as wide as those that are there."""
        found = [name.removeprefix(PREFIX) for name in update.tensors if name.startswith(PREFIX)]
        if found != [FEATURES]:
            raise MessageError(
                f"{update.client} sent {sorted(found) or 'nothing'} to the exchange; expected "
                f"`{FEATURES}` alone"
            )
        bank = features_in(update)
        if bank.dtype != torch.float32 or bank.ndim != 2 or 0 in bank.shape:
            raise MessageError(
                f"{update.client} sent features as {bank.dtype} {tuple(bank.shape)}; expected float32 "
                "(features, width), at least one of each"
            )
        known = {other.shape[1] for other in memory.values()}
        if known - {bank.shape[1]}:
            raise MessageError(
                f"{update.client} sent features of width {bank.shape[1]}; those before were of width "
                f"{sorted(known)}. Do all sites run the same job?"
            )
        lengths = torch.linalg.vector_norm(bank.double(), dim=1)
        astray = lengths[~((lengths - 1).abs() <= TOLERANCE)]
        if len(astray):
            raise MessageError(
                f"{update.client} sent {len(astray)} features that are not of length 1, first "
                f"{astray[0].item():g}; expected 1 within {TOLERANCE:g}. It may have diverged"
            )


def features_in(update: Update) -> Tensor:
    """The features `(features, width)` that came with an answer."""
    return update.tensors[PREFIX + FEATURES]


def in_order_of_bytes(rows: Tensor) -> Tensor:
    """The rows `(rows, width)` in an order that follows from the set of them alone."""
    plain = np.ascontiguousarray(rows.numpy())
    as_bytes = plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()
    return torch.from_numpy(plain[np.argsort(as_bytes)])

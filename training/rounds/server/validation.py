"""Validation of what clients report: against their own census, and against the other updates of the round.

A report is refused where it names a subgroup that the run does not have, more pictures of one than the client
counted in the census, or a mean loss that no model has. Whoever says that it trained on 10^12 pictures would
otherwise be the whole of every mean, and a loss of -10^9 would decide what a rule that goes by losses does.

Counts of answers are held against the census class by class: a row of a confusion matrix has no more pictures
than the client has labelled ones of that class, subgroup and split. Of counts under masks only the sum is
known, and only the sum of what the clients hold is a bound; then nobody can be named. Counts with noise may
be beyond it by chance and are not looked at. It finds no client that lied in the census already, beyond what
no hospital holds.

An update that goes much farther than the others of its round is refused, too. Of each update's two parts,
parameters and normalisation statistics, the norm of the difference to what the client was sent is compared
with the others': client c is refused where

    ‖θ_c − θ^t‖₂ > limit · median_i ‖θ_i − θ^t‖₂ · max(1, n_c / median_i n_i)

over all clients i that answered about this model, n being the training pictures that each told in the census:
whoever has more of them takes more steps. The median is the lower one of two, so that it is an honest
client's as long as fewer than half of three or more are not. With fewer than three answers nobody can be told
apart, and where most do not move at all (a median of 0) there is nothing to compare with.

It catches what is broken or crude, an update multiplied by a hundred; not one that is made to look like
others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.sync.base import BUFFERS
from training.data.dataset import SPLITS, Split
from training.errors import MessageError
from training.messages.message import Failure, Tensors, Update
from training.rounds.census import Census
from training.rounds.requests import Blocks

MOST_LOSS = 1e6  # beyond it a mean loss is none that weights in single precision have for long
ROUNDING = 1e-3  # by which a mean loss may be below the least that there is


@dataclass(frozen=True)
class CensusBounds:
    """What reports may say at most.

    Attributes:
        census: what each client said that it holds.
        least_loss: the least that a mean loss of the objective can be.
    """

    census: Census
    least_loss: float = 0.0

    def refuse_training(self, update: Update) -> None:
        """Refuse a report of a training that cannot have been.

        Raises:
            MessageError: naming the client, what it said and what it holds.
        """
        names, client = self.census.all_subgroups, update.client
        strange = sorted({*update.num_examples, *update.losses} - set(names))
        if strange:
            raise MessageError(
                f"{client} reports on subgroups that this run does not have: {', '.join(strange[:3])}; it "
                f"has {', '.join(names)}"
            )
        for name, count in update.num_examples.items():
            held = self.census.held(client, "train", [name], labelled=False)
            if count > held:
                raise MessageError(
                    f"{client} reports {count:,} training pictures of {name}, and holds {held:,} by its own "
                    "census; its report is left out"
                )
        for name, loss in update.losses.items():
            if not self.least_loss - ROUNDING <= loss <= MOST_LOSS:
                raise MessageError(
                    f"{client} reports a mean loss of {loss:g} for {name}; it is between {self.least_loss:g} "
                    f"and {MOST_LOSS:g} wherever one was computed. Its report is left out"
                )

    def refuse_counts(self, who: str, clients: Sequence[str], split: Split, blocks: Blocks) -> None:
        """Refuse counts of answers for more pictures than there are.

        Args:
            who: whose counts they are, for the message.
            clients: whose pictures were counted.
            split: which pictures.
            blocks: the counts, by subgroup.

        Raises:
            MessageError: naming them, what they count and what is held.
        """
        row = SPLITS.index(split)
        for name, block in blocks.items():
            held = self._held_by_class(name, clients, row)
            if held is None:
                raise MessageError(
                    f"{who} counts pictures of {name!r}, a subgroup that this run does not have; it has "
                    f"{', '.join(self.census.all_subgroups)}"
                )
            if block.noisy is not None:
                continue
            told = block.point.confusion.sum(axis=-1)
            beyond = told.sum() > held.sum() if len(told) != len(held) else bool((told > held).any())
            if beyond:
                raise MessageError(
                    f"{who} counts {by_class(self.census, told)} {split} pictures of {name}, and holds "
                    f"{by_class(self.census, held)} by the census; the counts are left out"
                )

    def _held_by_class(self, name: str, clients: Sequence[str], row: int) -> NDArray[np.int64] | None:
        """How many pictures of each class clients hold of a subgroup; None where there is no such one.

        Where each client has a model of its own, all its pictures are counted under its own name.
        """
        names = self.census.all_subgroups
        if name in names:
            of = [self.census.counts[client][row, names.index(name), :-1] for client in clients]
        elif name in clients:
            of = list(self.census.counts[name][row, :, :-1])
        else:
            return None
        return (
            np.sum(of, axis=0, dtype=np.int64) if of else np.zeros(len(self.census.classes), dtype=np.int64)
        )


def by_class(census: Census, counts: NDArray[np.int64]) -> str:
    """Numbers of pictures by class, in words; in all where they are of other classes than the census."""
    named: Mapping[str, int] = dict(zip(census.classes, map(int, counts), strict=False))
    if len(counts) != len(census.classes):
        return f"{int(sum(counts)):,}"
    return ", ".join(f"{n:,} {code}" for code, n in named.items())


FEWEST = 3  # answers of which a median tells anything
PIECE = 2**17  # values: their difference stays in the processor's cache between its two uses
# Between these a sum of a piece's squares in single precision has neither overflowed nor lost what counts.
LEAST, MOST = 2.0**-80, torch.finfo(torch.float32).max
Norms = Mapping[str, float]  # by part


def refuse_beyond_bound(
    updates: Sequence[Update],
    received: Callable[[str], Tensors],
    names: Sequence[str],
    sizes: Mapping[str, int],
    limit: float,
) -> list[Failure]:
    """What becomes of the updates that go too far.

    Args:
        updates: of one model in one round, each checked by itself.
        received: gives θ^t as a client was sent it.
        names: of the weights that travel.
        sizes: n by client, where they are known.
        limit: how many times the median is allowed.
    """
    if len(updates) < FEWEST or not names:
        return []
    norms = {update.client: norms_of(update.tensors, received(update.client), names) for update in updates}
    pictures = {update.client: max(sizes.get(update.client, 1), 1) for update in updates}
    usual = median_low(pictures.values())
    found: dict[str, Failure] = {}
    for part in norms[updates[0].client]:
        middle = median_low(each[part] for each in norms.values())
        for update in updates:
            client, norm = update.client, norms[update.client][part]
            allowed = limit * middle * max(1.0, pictures[client] / usual)
            if middle and norm > allowed:
                reason = too_far(client, part, norm, middle, allowed)
                found.setdefault(client, Failure(client, update.track, reason))
    return list(found.values())


def norms_of(tensors: Tensors, received: Tensors, names: Sequence[str]) -> Norms:
    """‖θ_c − θ^t‖₂ of the parameters and of the statistics among these names."""
    own = dict(tensors.items())  # opened once where they came compressed
    squares = {"parameters": 0.0, "statistics": 0.0}
    room = torch.empty(PIECE)
    for name in names:
        part = "statistics" if name.endswith(BUFFERS) else "parameters"
        squares[part] += squared_distance(own[name].float(), received[name].float(), room)
    return {part: total**0.5 for part, total in squares.items()}


def squared_distance(own: Tensor, received: Tensor, room: Tensor) -> float:
    """‖a − b‖₂² of two float32 tensors of one shape: pieces in single precision, summed in double.

    A piece that single precision cannot sum is summed in double precision, which takes several times as long.

    Args:
        own: a.
        received: b.
        room: a flat float32 tensor for one piece's difference; what it holds is overwritten.
    """
    # Both in the order in which a's values lie in memory, so that no view of a or of a like b is a copy.
    order = sorted(range(own.dim()), key=own.stride, reverse=True)
    ours, theirs = own.permute(order).reshape(-1), received.permute(order).reshape(-1)
    total = 0.0
    for one, other in zip(torch.split(ours, len(room)), torch.split(theirs, len(room)), strict=True):
        difference = torch.sub(one, other, out=room[: len(one)])
        squares = torch.dot(difference, difference).item()
        if not LEAST <= squares <= MOST:  # too small, too large, or not a number
            squares = torch.linalg.vector_norm(difference, dtype=torch.float64).item() ** 2
        total += squares
    return total


def too_far(client: str, part: str, norm: float, middle: float, allowed: float) -> str:
    """Why an update is refused, and what to do."""
    return (
        f"{client} sent {part} that moved by {norm:.3g}, and half of the clients moved by {middle:.3g} or "
        f"less; at most {allowed:.3g} is taken (engine.update_limit). It may have diverged or be broken: "
        "look at its pictures and labels, or raise the limit"
    )

"""Holds what a client reports of its pictures against what it said in the census that it holds.

A report is refused where it names a subgroup that the run does not have, more pictures of one than the client
counted in the census, or a mean loss that no model has. Whoever says that it trained on 10^12 pictures would
otherwise be the whole of every mean, and a loss of -10^9 would decide what a rule that goes by losses does.

Counts of answers are held against the census class by class: a row of a confusion matrix has no more pictures
than the client has labelled ones of that class, subgroup and split. Of counts under masks only the sum is
known, and only the sum of what the clients hold is a bound; then nobody can be named. Counts with noise may
be beyond it by chance and are not looked at. It finds no client that lied in the census already, beyond what
no hospital holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.data.dataset import SPLITS, Split
from training.errors import MessageError
from training.messages.message import Update
from training.rounds.blocks import Blocks
from training.rounds.census import Census

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

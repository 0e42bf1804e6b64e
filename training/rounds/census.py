"""The census: how many pictures each client holds, by split, subgroup and class; asked once, at the start.

What a client reports later is held against it. A report is refused where it names a subgroup that the run
does not have, more pictures of one than the client counted in the census, or a mean loss that no model has. A
client that says that it trained on 10^12 pictures would otherwise be the whole of every mean, and a loss of
-10^9 would decide what a rule that goes by losses does.

Counts of answers are held against the census class by class: a row of a confusion matrix has no more pictures
than the client has labelled ones of that class, subgroup and split. Of counts under masks only the sum is
known, and only the sum of what the clients hold is a bound; then no client can be named. Counts with noise
may be beyond it by chance and are not looked at. It finds no client that lied in the census already, beyond
what no hospital holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.labels import UNDECLARED
from training.algorithms.client import Client
from training.data.cells import Cells
from training.data.dataset import FOLDED_CLASSES, SERVER, SPLITS, Dataset, Split
from training.data.unused import Unused, unused_of
from training.errors import DataError, MessageError
from training.messages import Broadcast, Update, reply
from training.rounds.requests import Blocks

CENSUS = "census"
MOST = 10**9  # pictures of one split, subgroup and class: no hospital holds more


def take_census(broadcast: Broadcast, client: Client) -> Update:
    """Answer the request `census`: counts of one client's pictures.

    A client that has its pictures to itself also tells how many of them are not used.
    """
    unused = unused_of(client.dataset) if tuple(client.dataset.clients) == (client.id,) else None
    return reply(
        broadcast,
        tensors={CENSUS: torch.from_numpy(count_pictures(client.dataset, client.id))},
        scalars={} if unused is None else unused.scalars(),
    )


def count_pictures(dataset: Dataset, client: str) -> NDArray[np.int64]:
    """Pictures of one client, `(splits, subgroups + 1, classes + 1)`.

    Undeclared subgroups and missing labels take the last places.
    """
    subgroups, classes = len(dataset.subgroups) + 1, len(dataset.labels) + 1
    counts = np.zeros((len(SPLITS), subgroups, classes), dtype=np.int64)
    for row, split in enumerate(SPLITS):
        examples = dataset.examples(client, split)
        np.add.at(counts[row], (examples.subgroups % subgroups, examples.labels % classes), 1)
    return counts


def unused_in(update: Update) -> Unused | None:
    """What a client tells of pictures that are not used.

    Raises:
        MessageError: it is no such thing.
    """
    try:
        return Unused.of_scalars(update.scalars)
    except ValueError as error:
        raise MessageError(f"{update.client} tells of its pictures what cannot be: {error}") from error


def refuse_impossible(update: Update) -> None:
    """Refuse numbers of pictures that are none.

    Raises:
        MessageError: naming the client.
    """
    counts = update.tensors[CENSUS]
    if counts.dtype != torch.int64 or bool((counts < 0).any()) or bool((counts > MOST).any()):
        raise MessageError(
            f"{update.client} counts {counts.min().item():,} to {counts.max().item():,} pictures "
            f"({counts.dtype}) of one class and subgroup; numbers are whole and from 0 to "
            f"{MOST:,}. Look at its manifest, or begin without it (--without)"
        )


@dataclass(frozen=True)
class Census:
    """What the clients hold.

    Attributes:
        subgroups: the subgroups' names; `undeclared` follows them in the counts.
        classes: the classes' codes; pictures without a label follow them in the counts.
        counts: `(splits, subgroups + 1, classes + 1)` of each client, in client order.
        unseen: clients that take no part in training; their classes are benign and malignant.
        unused: the pictures of clients that are not used, where they reported them.
        disclosed: the counts that are of enough patients to be disclosed, where that is known.
    """

    subgroups: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Mapping[str, NDArray[np.int64]]
    unseen: tuple[str, ...] = ()
    unused: Mapping[str, Unused] = field(default_factory=dict)
    disclosed: Mapping[str, NDArray[np.int64]] | None = None

    @classmethod
    def from_updates(
        cls,
        updates: Sequence[Update],
        subgroups: Sequence[str],
        classes: Sequence[str],
        unseen: Sequence[str] = (),
    ) -> "Census":
        """The census that the clients' answers make.

        Raises:
            MessageError: when an answer has another shape than the job's subgroups and classes give, or has
                numbers that cannot be.
        """
        shape = (len(SPLITS), len(subgroups) + 1, len(classes) + 1)
        for update in updates:
            if tuple(update.tensors[CENSUS].shape) != shape:
                found = tuple(update.tensors[CENSUS].shape)
                raise MessageError(
                    f"{update.client} counts {found} (splits, subgroups, classes); "
                    f"the job has {shape}; do its label map and subgroups equal the job's?"
                )
            refuse_impossible(update)
        counts = {update.client: update.tensors[CENSUS].numpy() for update in updates}
        unused = {update.client: own for update in updates if (own := unused_in(update)) is not None}
        return cls(tuple(subgroups), tuple(classes), counts, tuple(unseen), unused)

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> "Census":
        """The census of data that are all here."""
        counts = {client: count_pictures(dataset, client) for client in dataset.clients}
        codes = tuple(label.code for label in dataset.labels)
        return cls(tuple(dataset.subgroups), codes, counts, tuple(dataset.unseen))

    @property
    def all_subgroups(self) -> tuple[str, ...]:
        """The subgroups' names, and `undeclared` after them."""
        return (*self.subgroups, UNDECLARED)

    def held(self, client: str, split: Split, subgroups: Sequence[str], *, labelled: bool = True) -> int:
        """How many pictures of some subgroups a client holds in a split: labelled ones, or all."""
        rows = [self.all_subgroups.index(name) for name in subgroups]
        classes = slice(None, -1) if labelled else slice(None)
        return int(self.counts[client][SPLITS.index(split)][rows, classes].sum())

    def by_cell(self, split: Split, cells: Cells, clients: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many labelled pictures of each cell each of some clients holds in a split."""
        held = {name: cells.count(self.counts[name][SPLITS.index(split), :, :-1]) for name in clients}
        return {cell: {name: held[name][cell] for name in clients} for cell in cells.names}

    def holders(self, split: Split, subgroups: Sequence[str], *, labelled: bool = True) -> tuple[str, ...]:
        """The clients that hold pictures of any of these subgroups in a split, in order."""
        if not self.counts:
            return ()
        rows = [self.all_subgroups.index(name) for name in subgroups]
        classes = slice(None, -1) if labelled else slice(None)
        held = self._stacked[:, SPLITS.index(split), :, classes][:, rows].sum(axis=(1, 2))
        return tuple(name for name, n in zip(self.counts, held, strict=True) if n)

    @cached_property
    def _stacked(self) -> NDArray[np.int64]:
        """The counts of all clients in one array: one by one a thousand clients take tenths of a second."""
        return np.stack(list(self.counts.values()))

    def hospitals(self, split: Split, subgroups: Sequence[str]) -> tuple[str, ...]:
        """The holders of labelled pictures that are neither the server nor unseen: who judges a model."""
        apart = self._apart
        return tuple(name for name in self.holders(split, subgroups) if name not in apart)

    @property
    def all_hospitals(self) -> tuple[str, ...]:
        """Every client that is neither the server nor unseen, whatever it holds."""
        return tuple(name for name in self.counts if name not in self._apart)

    @property
    def _apart(self) -> frozenset[str]:
        """The clients that are no hospitals of the federation."""
        return frozenset({SERVER, *self.unseen})

    def judged(self, split: Split, subgroups: Sequence[str]) -> tuple[str, ...]:
        """Those of some subgroups of which a hospital holds labelled pictures: about others nothing is asked.

        Under masks every hospital adds noise for each subgroup that a request names.
        """
        return tuple(name for name in subgroups if self.hospitals(split, [name]))

    def can_disclose(self, split: Split, subgroups: Sequence[str], least: int) -> bool:
        """Whether a hospital holds so many labelled pictures of one of these subgroups that it may tell of.

        Of how few patients they are is mostly only known there.
        """
        known = self if self.disclosed is None else replace(self, counts=self.disclosed, disclosed=None)
        return any(
            known.held(client, split, [name]) >= least
            for name in subgroups
            for client in known.hospitals(split, [name])
        )

    def not_counted(self, split: Split, counted: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """The subgroups of which hospitals hold more labelled pictures than were counted, with both numbers.

        Only a hospital knows why: of how few patients its pictures are, and what it disclosed before.

        Args:
            split: of the pictures.
            counted: how many were, by subgroup; none of those that are missing.
        """
        found = {}
        for name in self.all_subgroups:
            held = sum(self.held(client, split, [name]) for client in self.hospitals(split, [name]))
            if counted.get(name, 0) < held:
                found[name] = {"counted": counted.get(name, 0), "held": held}
        return found

    def check(self, *, whole: bool = True) -> None:
        """Refuse a federation that cannot be trained or judged.

        Args:
            whole: whether every subgroup must have pictures.

        Raises:
            DataError: naming every client without pictures and every subgroup without training pictures, or
                where there are none at all.
        """
        empty = [name for name, counts in self.counts.items() if not counts.sum() and name not in self._apart]
        if empty:
            raise DataError(
                f"no pictures at {', '.join(empty)}; give each client some, or change data.clients"
            )
        if not set(self.holders("train", self.all_subgroups, labelled=False)) - set(self.unseen):
            raise DataError("no client has a training picture; raise data.split.train")
        absent = [name for name in self.subgroups if whole and not self.holders("train", [name])]
        if absent:
            raise DataError(
                f"no labelled training pictures of subgroup {', '.join(absent)}; "
                "remove it from data.subgroups, merge it with another group, or leave it labels "
                "(data.label_fraction, data.labelled_clients)"
            )

    def table(self) -> list[dict[str, Any]]:
        """Labelled pictures as rows of client, split, subgroup, class and n; zeros are left out."""
        return [
            {"client": client, "split": split, "subgroup": subgroup, "label": code, "n": int(n)}
            for client, counts in self.counts.items()
            for split, by_subgroup in zip(SPLITS, counts, strict=True)
            for subgroup, by_class in zip(self.all_subgroups, by_subgroup, strict=True)
            for code, n in zip(self.codes(client), by_class, strict=True)
            if n > 0
        ]

    def codes(self, client: str) -> tuple[str, ...]:
        """The names of the classes by which a client's pictures are counted."""
        if client not in self.unseen:
            return (*self.classes, "unlabelled")
        return (*FOLDED_CLASSES, *self.classes[len(FOLDED_CLASSES) :], "unlabelled")


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
            counted = block.point.confusion.sum(axis=-1)
            beyond = counted.sum() > held.sum() if len(counted) != len(held) else bool((counted > held).any())
            if beyond:
                raise MessageError(
                    f"{who} counts {by_class(self.census, counted)} {split} pictures of {name}, and holds "
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

"""A client's pictures as training reads them: arrays of one split, and the protocol of a dataset."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from registry.bundle.cases import EMPTY, CaseInput
from registry.bundle.labels import Label


@dataclass(frozen=True)
class Cases:
    """The pictures and facts of n cases; see `registry.bundle.cases` for the numbers.

    Attributes:
        pictures: rows of the pictures, `(n, slots)` int64; -1 where a slot is empty. The first is never.
        kinds: of the pictures, `(n, slots)` int64; -1 where a slot is empty.
        context: the facts, `(n, facts)` float32; NaN where one is not known.
    """

    pictures: NDArray[np.int64]
    kinds: NDArray[np.int64]
    context: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pictures)

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> "Cases":
        """The cases for which `keep` `(n,)` is true, or at these positions."""
        return Cases(self.pictures[keep], self.kinds[keep], self.context[keep])

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which slots hold a picture, `(n, slots)`."""
        present: NDArray[np.bool_] = self.kinds != EMPTY
        return present


def joined_cases(many: Iterable[Cases]) -> Cases:
    """The cases of several parts, one after the other."""
    parts = list(many)
    return Cases(
        np.concatenate([part.pictures for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.context for part in parts]),
    )


Split = Literal["train", "validation", "calibration", "test"]

SPLITS: tuple[Split, ...] = ("train", "validation", "calibration", "test")

SERVER = "server"  # the client that the coordinator owns, where a job asks for one

UNLABELLED_CLIENT = "unlabelled"  # the client that holds all unlabelled training pictures, where asked for

DECLARED_TONE = ""  # the trait of the skin tones that subgroups name; no column of a manifest is called so

FOLDED_CLASSES = ("benign", "malignant")  # what the labels of unseen clients, 0 and 1, mean


@dataclass(frozen=True)
class Examples:
    """The pictures of one split of one client, or its cases where the job is about lesions.

    Attributes:
        images: uint8 pictures `(pictures, height, width, 3)`, shared and usually memory-mapped; or their
            features `(pictures, features)` float16.
        rows: which of `images` belong here, `(n,)` int64.
        labels: class index `(n,)` int64, -1 where there is none. Of an unseen client, whose data set may know
            other classes than the job: an index into `FOLDED_CLASSES`, 0 benign and 1 malignant, whatever
            the job's classes are; premalignant counts as malignant.
        subgroups: subgroup index `(n,)` int64, -1 where it is undeclared.
        lesions: lesion number `(n,)` int64; equal numbers are pictures of one lesion.
        traits: value index `(n, columns)` int64 in each column of the dataset's `traits`, or None.
        names: digests of each picture and of its patient, `(n, 2)` int64, the same in every run; None where
            they are not known.
        cases: all pictures and the facts of each example, where an example is a lesion; `rows` are then of
            its first picture. None where an example is a picture.
        views: how many rows of `images` a picture has: its own, and after it those of other views of it.
        folds: the fold of each, `(n,)` int64, where models are trained each without one; see
            `training.data.folds`.
    """

    images: NDArray[Any]
    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    subgroups: NDArray[np.int64]
    lesions: NDArray[np.int64]
    traits: NDArray[np.int64] | None = None
    names: NDArray[np.int64] | None = None
    cases: Cases | None = None
    views: int = 1
    folds: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Pictures at `positions` (indices into `rows`), `(batch, height, width, 3)` uint8; or features."""
        return self.images[self.rows[positions]]

    def where(self, keep: NDArray[np.bool_]) -> "Examples":
        """The examples for which `keep` `(n,)` is true."""
        return Examples(
            self.images,
            self.rows[keep],
            self.labels[keep],
            self.subgroups[keep],
            self.lesions[keep],
            None if self.traits is None else self.traits[keep],
            None if self.names is None else self.names[keep],
            None if self.cases is None else self.cases.where(keep),
            self.views,
            None if self.folds is None else self.folds[keep],
        )

    def in_drawn_views(self, random: np.random.Generator) -> "Examples":
        """The examples with a newly drawn view of each picture; unchanged where each has one view."""
        if self.views == 1:
            return self
        cases = self.cases
        if cases is not None:
            drawn = random.integers(self.views, size=cases.pictures.shape)
            cases = replace(cases, pictures=np.where(cases.present, cases.pictures + drawn, -1))
        rows = self.rows + random.integers(self.views, size=len(self.rows))
        return replace(self, rows=rows, cases=cases)

    @property
    def people(self) -> NDArray[np.int64]:
        """Whose each picture is, `(n,)`: equal numbers are of one patient, without `names` of one lesion."""
        return self.lesions if self.names is None else self.names[:, 1]

    @property
    def num_people(self) -> int:
        """How many patients the pictures are of."""
        return len(np.unique(self.people))

    @property
    def identities(self) -> NDArray[np.int64]:
        """By what a picture and its patient are known again, `(n, 2)`: `names`, else pixels and lesions."""
        if self.names is not None:
            return self.names
        digests = [hashlib.sha256(self.images[row].tobytes()).digest()[:8] for row in self.rows]
        pictures = [int.from_bytes(digest, "big", signed=True) for digest in digests]
        return np.column_stack([np.array(pictures, dtype=np.int64), self.lesions])


class Dataset(Protocol):
    """All clients' data of one job, as the job's `data` block asks; cheap to pickle."""

    @property
    def labels(self) -> Sequence[Label]:
        """The classes, in the order of the model's outputs."""

    @property
    def subgroups(self) -> Sequence[str]:
        """The names of the subgroups, in the order of their indices; empty when none are asked for."""

    @property
    def clients(self) -> Sequence[str]:
        """The clients' ids, in the order in which sums are taken.

        Hospitals, then `UNLABELLED_CLIENT`, `SERVER` and the unseen clients, where the job has them.
        """

    @property
    def unseen(self) -> Sequence[str]:
        """Those of `clients` that train nothing: all their pictures are in the split `test`."""

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """The clients that each source became, by its name, where clients are by source; else empty.

        Unseen clients are in none.
        """

    @property
    def fingerprint(self) -> str:
        """A digest of what the pictures, labels, splits and partition are."""

    def examples(self, client: str, split: Split) -> Examples:
        """The pictures of one split of one client.

        The labels of an unseen client are folded: indices into `FOLDED_CLASSES`, not into `labels`.
        """


@runtime_checkable
class HasTraits(Protocol):
    """A dataset that knows more of its pictures than their subgroup; others need not."""

    @property
    def traits(self) -> Mapping[str, Sequence[str]]:
        """The columns of `Examples.traits`, in order, and the values that each column's indices stand for.

        The last is `DECLARED_TONE` where subgroups are by skin tone.
        """


@runtime_checkable
class HasCases(Protocol):
    """A dataset whose examples may be cases; others need not know of them."""

    @property
    def case(self) -> CaseInput | None:
        """Which pictures and facts a case has; None where an example is a picture."""


def case_of(dataset: Dataset) -> CaseInput | None:
    """What a case of a dataset has; None where its examples are pictures."""
    return dataset.case if isinstance(dataset, HasCases) else None


def traits_of(dataset: Dataset) -> Mapping[str, Sequence[str]]:
    """The traits that a dataset knows of, if any."""
    return dataset.traits if isinstance(dataset, HasTraits) else {}


@dataclass(frozen=True)
class DatasetView:
    """What every view of a dataset has; with `examples`, it implements `Dataset`.

    Attributes:
        dataset: what is looked at.
    """

    dataset: Dataset

    @property
    def labels(self) -> Sequence[Label]:
        """Those of the dataset."""
        return self.dataset.labels

    @property
    def subgroups(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.subgroups

    @property
    def clients(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.clients

    @property
    def unseen(self) -> Sequence[str]:
        """Those of the dataset."""
        return self.dataset.unseen

    @property
    def communities(self) -> Mapping[str, Sequence[str]]:
        """Those of the dataset."""
        return self.dataset.communities

    @property
    def fingerprint(self) -> str:
        """That of the dataset."""
        return self.dataset.fingerprint

    @property
    def traits(self) -> Mapping[str, Sequence[str]]:
        """Those of the dataset."""
        return traits_of(self.dataset)

    @property
    def case(self) -> CaseInput | None:
        """That of the dataset."""
        return case_of(self.dataset)


PICTURE, PATIENT, SPLIT, SUBGROUP, LABEL, FACTS = range(6)  # the columns
COLUMNS = 6


@dataclass(frozen=True)
class PictureList:
    """A list of a client's pictures as digests: what a run began with.

    No pixel and no name is in it. Of each example it has the digest of its bytes and of its patient, and what
    the job makes of it: split, subgroup, class, and a digest of its traits and facts.

    Attributes:
        rows: `(pictures, 6)` int64: digests of picture and patient, split, subgroup (-1 where undeclared),
            class (-1 where unlabelled), digest of facts.
    """

    rows: NDArray[np.int64]

    @classmethod
    def of(cls, dataset: Dataset, client: str) -> "PictureList":
        """The list of what a client holds now."""
        parts = [
            np.column_stack(
                [
                    examples.identities,
                    np.full(len(examples), place, dtype=np.int64),
                    examples.subgroups,
                    examples.labels,
                    facts_of(examples),
                ]
            )
            for place, split in enumerate(SPLITS)
            if len(examples := dataset.examples(client, split))
        ]
        return cls(np.concatenate([np.empty((0, COLUMNS), dtype=np.int64), *parts]))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """Of the list, in whatever order."""
        rows = self.rows[np.lexsort(self.rows.T)]
        return "sha256:" + hashlib.sha256(rows.tobytes()).hexdigest()

    def sets(self) -> list[NDArray[np.int64]]:
        """Pictures and patients `(n, 2)` of each split and subgroup, with labels and without."""
        return self._parts(np.column_stack([self.rows[:, [SPLIT, SUBGROUP]], self.rows[:, LABEL] >= 0]))

    def classes(self) -> list[NDArray[np.int64]]:
        """Pictures and patients `(n, 2)` of each class that has any."""
        labelled = PictureList(self.rows[self.rows[:, LABEL] >= 0])
        return labelled._parts(labelled.rows[:, [LABEL]])

    def _parts(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Pictures and patients of each value of keys `(pictures, columns)`."""
        _, places = np.unique(keys, axis=0, return_inverse=True)
        numbers = places.reshape(-1)
        return [
            self.rows[numbers == number][:, [PICTURE, PATIENT]]
            for number in range(numbers.max(initial=-1) + 1)
        ]


def facts_of(examples: Examples) -> NDArray[np.int64]:
    """A digest of what is known of each example other than its class and subgroup, `(n,)`."""
    cases = examples.cases
    found = np.empty(len(examples), dtype=np.int64)
    for place in range(len(examples)):
        parts = [] if examples.traits is None else [examples.traits[place]]
        parts += [] if cases is None else [cases.kinds[place], cases.context[place]]
        digest = hashlib.sha256(b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)).digest()
        found[place] = int.from_bytes(digest[:8], "big", signed=True)
    return found

"""Counts by cell of class and subgroup, and the suppression of small cells.

There are few cells where classes are divided by malignancy alone: malignant and other pictures of each
subgroup, the undeclared ones among them.

Small-cell suppression: nothing is disclosed of a part of a subgroup with only a few patients.

A part of fewer than the minimum is not disclosed. Nor may it follow from the others: what the block of the
whole subgroup counts beyond the parts that are disclosed is either nothing or at least the minimum. Where it
would be less, the smallest part that could be disclosed is kept back as well.

Each column is looked at by itself. Where one column's values lie within another's (a ward within a clinic),
parts of both may differ by a few patients; `training.rounds.client.ledger` holds one against the
other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from registry.bundle.counts import Trait
from registry.bundle.labels import UNDECLARED, Label, malignant_classes
from training.data.dataset import Examples
from training.errors import JobError


def unsuppressed(
    examples: Examples, traits: Mapping[str, Sequence[str]], min_count: int
) -> dict[Trait, NDArray[np.bool_]]:
    """Which examples `(n,)` have each trait that may be disclosed; none where they have no traits.

    Args:
        examples: the pictures of one subgroup that its block counts.
        traits: the columns and their values, in the order of `examples.traits`.
        min_count: a part of fewer patients is not disclosed.
    """
    if examples.traits is None:
        return {}
    disclosed: dict[Trait, NDArray[np.bool_]] = {}
    for place, (column, values) in enumerate(traits.items()):
        of_each = examples.traits[:, place]
        for number in suppress_small_cells(of_each, examples.people, len(values), min_count):
            disclosed[column, values[number]] = of_each == number
    return disclosed


def suppress_small_cells(
    of_each: NDArray[np.int64], people: NDArray[np.int64], num_values: int, min_count: int
) -> list[int]:
    """The values that may be disclosed.

    Args:
        of_each: the value of each picture, `(n,)`.
        people: the patient of each picture, `(n,)`.
        num_values: values run from 0 to one below.
        min_count: the fewest patients of a value that is disclosed, and of the rest.
    """
    sizes = count_people(of_each, people, num_values)
    disclosed = np.flatnonzero(sizes >= max(min_count, 1)).tolist()
    rest = len(np.unique(people[~np.isin(of_each, disclosed)]))
    if disclosed and 0 < rest < min_count:
        disclosed.remove(min(disclosed, key=lambda number: int(sizes[number])))
    return disclosed


def count_people(of_each: NDArray[np.int64], people: NDArray[np.int64], num_values: int) -> NDArray[np.int64]:
    """How many patients have a picture of each value, `(num_values,)`; values below 0 are left out."""
    pairs = np.unique(np.stack([of_each, people]), axis=1)[0]
    return np.bincount(pairs[pairs >= 0], minlength=num_values)


CellClasses = Literal["malignancy", "class"]

SIDES = ("other", "malignant")


@dataclass(frozen=True)
class Cells:
    """All cells of a job; each has a number, subgroup by subgroup, undeclared last.

    Attributes:
        kinds: what classes are divided by, `(kinds,)`: sides of malignancy, or codes.
        kind_of: of each class, `(classes,)`.
        subgroups: their names, without `undeclared`.
    """

    kinds: tuple[str, ...]
    kind_of: NDArray[np.int64]
    subgroups: tuple[str, ...]

    @classmethod
    def of(cls, by: CellClasses, labels: Sequence[Label], subgroups: Sequence[str]) -> "Cells":
        """The cells of a job.

        Raises:
            JobError: where all its classes are benign or all malignant, and cells are by malignancy.
        """
        codes = tuple(label.code for label in labels)
        if by == "class":
            return cls(codes, np.arange(len(codes)), tuple(subgroups))
        malignant = malignant_classes(labels)
        if malignant.all() or not malignant.any():
            raise JobError(
                f"cells: malignancy tells malignant classes from others, and of {', '.join(codes)} "
                f"{'all are' if malignant.all() else 'none is'} malignant; set aggregator.cells: class"
            )
        return cls(SIDES, malignant.astype(np.int64), tuple(subgroups))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, by number."""
        return tuple(f"{kind}, {place}" for place in (*self.subgroups, UNDECLARED) for kind in self.kinds)

    def numbers(self, examples: Examples) -> NDArray[np.int64]:
        """The cell of each picture, `(n,)`; all have labels."""
        places = examples.subgroups % (len(self.subgroups) + 1)
        numbers: NDArray[np.int64] = places * len(self.kinds) + self.kind_of[examples.labels]
        return numbers

    def as_subgroups(self, examples: Examples) -> Examples:
        """The same pictures, each with its cell in its subgroup's stead."""
        return replace(examples, subgroups=self.numbers(examples))

    def count(self, held: NDArray[np.int64]) -> dict[str, int]:
        """Pictures by cell, of pictures by subgroup and class `(subgroups + 1, classes)`."""
        found = np.zeros((len(self.subgroups) + 1, len(self.kinds)), dtype=np.int64)
        np.add.at(found.T, self.kind_of, held.T)
        return dict(zip(self.names, found.flatten().tolist(), strict=True))

    def disclosed(self, examples: Examples, min_count: int) -> frozenset[str]:
        """The cells that may be disclosed: each is of `min_count` patients or more, as is what is withheld.

        The sum over a subgroup is disclosed too. If only few patients were outside the disclosed cells, their
        counts would follow from the sum; so one more cell is withheld (`training.data.cells`).
        """
        numbers, kinds, names = self.numbers(examples), len(self.kinds), self.names
        told: list[str] = []
        for place in range(len(self.subgroups) + 1):
            here = numbers // kinds == place
            of_each, people = numbers[here] % kinds, examples.people[here]
            found = suppress_small_cells(of_each, people, kinds, min_count)
            told += [names[place * kinds + number] for number in found]
        return frozenset(told)


@dataclass(frozen=True)
class CellWeights:
    """What a picture of each cell counts.

    Attributes:
        cells: the cells.
        weights: w_g by name; 1 where none is given.
    """

    cells: Cells
    weights: Mapping[str, float]

    def of_each(self, examples: Examples, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the loss of each picture counts when it is drawn, `(n,)`.

        w_g n_g / (w n p_g), where p_g of the draws are of cell g and n_g of n pictures, whose mean weight is
        w = Σ_g w_g n_g / n: so draws choose the pictures within a cell, weights alone say what it counts, and
        the mean of what is drawn is 1. Where no picture has any weight, all count alike.

        Args:
            examples: a client's pictures, all with labels.
            drawn: the share of all draws that each is expected to have, `(n,)`.
        """
        numbers, names = self.cells.numbers(examples), self.cells.names
        weights = np.array([self.weights.get(name, 1.0) for name in names])
        held = np.bincount(numbers, minlength=len(names)) / max(len(numbers), 1)
        expected = np.bincount(numbers, weights=drawn, minlength=len(names))
        mean = (weights * held).sum()
        weights = weights / mean if mean > 0 else np.ones(len(names))
        counted = weights * np.divide(held, expected, out=np.zeros(len(names)), where=expected > 0)
        each: NDArray[np.float64] = counted[numbers]
        return each


def count_by_subgroup(examples: Examples, subgroups: Sequence[str]) -> dict[str, int]:
    """Pictures by subgroup name; those with none are absent."""
    counts = np.bincount(examples.subgroups % (len(subgroups) + 1), minlength=len(subgroups) + 1)
    return {name: int(n) for name, n in zip((*subgroups, UNDECLARED), counts, strict=True) if n > 0}


def name_losses(sums: Tensor, drawn: Tensor, subgroups: Sequence[str]) -> Mapping[str, float]:
    """Mean loss by subgroup name from sums and counts `(subgroups + 1,)`, undeclared last."""
    named = zip((*subgroups, UNDECLARED), sums.tolist(), drawn.tolist(), strict=True)
    return {name: total / count for name, total, count in named if count > 0}


def in_subgroup(examples: Examples, subgroups: Sequence[str], name: str) -> Examples:
    """The examples of one subgroup, or of those undeclared."""
    index = -1 if name == UNDECLARED else list(subgroups).index(name)
    return examples.where(examples.subgroups == index)

"""Cells: training pictures by the class and the subgroup that they are of, and what those of each cell count.

There are few of them where classes are told apart by malignancy alone: malignant and other pictures of each
subgroup, the undeclared ones among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from registry.bundle.labels import UNDECLARED, Label, malignant_classes
from training.data.dataset import Examples
from training.data.small_cells import suppress_small_cells
from training.errors import JobError

CellClasses = Literal["malignancy", "class"]

SIDES = ("other", "malignant")


@dataclass(frozen=True)
class Cells:
    """All cells of a job; each has a number, subgroup by subgroup, undeclared last.

    Attributes:
        kinds: what classes are told apart by, `(kinds,)`: sides of malignancy, or codes.
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
            JobError: where its classes are of one side, and are to be told apart by malignancy.
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
        """The cells of which something may be told: of so many patients, as is what it leaves unsaid.

        The sum over a subgroup is told too. Where all but few patients' pictures of it were in cells that are
        told, theirs would follow; so one more cell of it is not told (`training.data.small_cells`).
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

"""The block of counts that a client sends for one subgroup."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import Cell, Trait, add_cells, name_of_array, read_cells, trait_of
from registry.bundle.counts.decisions import Decisions
from registry.bundle.counts.histograms import Counts
from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.counts.noisy import NOISE, NoisyCounts
from registry.bundle.errors import CountsError

__all__ = ["Block", "Counts"]

LESIONS, DECISIONS = "lesions", "decisions"  # arrays beside those of `Counts`
SIDES = 2  # of lesions: malignant ones called malignant, and others not called so


@dataclass(frozen=True)
class Block:
    """The counts that a client sends for one subgroup.

    Attributes:
        point: its counts; each occupied bin of a histogram is of several patients.
        lesions: sums by lesion of right answers by true class, then of malignant pictures that are called
            malignant and of others that are not, `(classes + 2,)` shares; None in counts with noise.
        decisions: what thresholds would do, where the question named them.
        cells: confusion matrices of those of its pictures that share a trait, if asked for.
        noisy: the counts with noise that the others were made of, where a job asks for noise.
    """

    point: Counts
    lesions: LesionSums | None = None
    decisions: Decisions | None = None
    cells: Mapping[Trait, Cell] = field(default_factory=dict)
    noisy: NoisyCounts | None = None

    @classmethod
    def of_noisy(cls, noisy: NoisyCounts) -> "Block":
        """The block of consistent counts that noisy ones stand for."""
        return cls(noisy.consistent(), noisy=noisy)

    @cached_property
    def by_lesion(self) -> LesionSums:
        """The sums by lesion of right answers by true class; with noise, each picture is a lesion."""
        if self.lesions is not None:
            return self.lesions[: self.point.num_classes]
        confusion = self.point.confusion
        return LesionSums.of_independent(np.diagonal(confusion), confusion.sum(axis=-1))

    def __add__(self, other: "Block") -> "Block":
        if (self.noisy is None) != (other.noisy is None):
            raise CountsError("one block has noise and the other has none; do all clients run the same job?")
        if self.noisy is not None and other.noisy is not None:
            return Block.of_noisy(self.noisy + other.noisy)
        missing = (self.lesions is None) != (other.lesions is None)
        if missing or (self.decisions is None) != (other.decisions is None):
            raise CountsError(
                "one block has sums by lesion or decisions and the other has none; count both alike"
            )
        return Block(
            self.point + other.point,
            None if self.lesions is None or other.lesions is None else self.lesions + other.lesions,
            None if self.decisions is None or other.decisions is None else self.decisions + other.decisions,
            add_cells(self.cells, other.cells),
        )

    def to_arrays(self) -> dict[str, NDArray[np.int32]]:
        """Serializes the block for a message, all int32."""
        if self.noisy is not None:
            return self.noisy.to_arrays()
        arrays = self.point.to_arrays()
        beside = {LESIONS: self.lesions, DECISIONS: None if self.decisions is None else self.decisions.sums}
        # No sum of squares travels that the counts' own limit would not hold: lesions have few pictures.
        arrays |= {
            name: sums.to_array().astype(np.int32) for name, sums in beside.items() if sums is not None
        }
        return arrays | {
            name_of_array(trait): cell.to_array().astype(np.int32) for trait, cell in self.cells.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Block":
        """Reads and validates a received or stored block.

        Raises:
            CountsError: the arrays are not what `to_arrays` gives.
        """
        if NOISE in arrays:
            return cls.of_noisy(NoisyCounts.from_arrays(arrays))
        counted = {
            name: array
            for name, array in arrays.items()
            if name not in (LESIONS, DECISIONS) and trait_of(name) is None
        }
        counts = Counts.from_arrays(counted)
        cells = read_cells(arrays, arrays["confusion"])
        block = cls(counts, cells=cells)
        if LESIONS in arrays:
            lesions = LesionSums.from_array(arrays[LESIONS], counts.num_classes + SIDES, LESIONS)
            _check_lesions(lesions, counts)
            block = replace(block, lesions=lesions)
        if DECISIONS in arrays:
            block = replace(block, decisions=Decisions.from_array(arrays[DECISIONS], int(counts.n)))
        return block


def _check_lesions(lesions: LesionSums, counts: Counts) -> None:
    right = lesions[: counts.num_classes]
    if (right.n != counts.confusion.sum(axis=-1)).any() or (right.x != np.diagonal(counts.confusion)).any():
        raise CountsError(
            "the sums by lesion do not hold the pictures of the confusion matrix; the block is broken"
        )

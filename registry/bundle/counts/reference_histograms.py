"""Reference histograms of test pictures' scores, which the service measures drift against."""

from typing import Any, Self

import numpy as np
from pydantic import Field

from registry.bundle.counts.histograms import Counts
from registry.bundle.frozen import Frozen


class ScoreHistograms(Frozen):
    """Histograms of some test pictures' scores, all in the bins of the manifest that they stand in.

    Attributes:
        confidence: the highest probability, one count per score bin.
        scores: each class's probability, one count per score bin, `(classes, bins)`.
        malignancy: the malignancy probability, one count per score bin; None where the labels are not of both
            kinds.
        right: `confidence` of those pictures whose most probable class was the true one.
        smallest_cell: the fewest patients of an occupied bin where pictures were counted: neighbours of
            fewer were merged there (`merged_bins`). 1 where none were.
        parts: how many such histograms, each of a subgroup at a hospital, were added up.
    """

    confidence: tuple[int, ...]
    scores: tuple[tuple[int, ...], ...]
    malignancy: tuple[int, ...] | None = None
    right: tuple[int, ...] | None = None
    smallest_cell: int = Field(1, ge=1)
    parts: int = Field(1, ge=1)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Every histogram."""
        given = (self.confidence, *self.scores, self.malignancy, self.right)
        return tuple(row for row in given if row is not None)

    @classmethod
    def from_counts(cls, counts: Counts, **more: Any) -> Self:
        """The histograms of counts without replicates; keywords are further attributes."""
        malignancy = tuple(np.sum(counts.malignancy, axis=0).tolist())
        return cls(
            confidence=tuple(np.sum(counts.confidence, axis=0).tolist()),
            scores=tuple(tuple(row) for row in np.sum(counts.scores, axis=1).tolist()),
            malignancy=malignancy if any(malignancy) else None,
            right=tuple(np.asarray(counts.confidence)[1].tolist()),
            **more,
        )

"""Epochs over labelled and unlabelled pictures side by side, as semi-supervised objectives take them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from training.algorithms.sampling import ClassSampling, epoch_order, repeated


@dataclass(frozen=True)
class Streams:
    """What is drawn from where.

    Attributes:
        labels: the class of each of the client's pictures `(n,)`, -1 where there is none.
        batch_size: labelled pictures in a batch.
        ratio: unlabelled pictures in a batch for each labelled one.
        samples: labelled pictures in an epoch, the same for every client (FedVC); None for all that there
            are, or as many as it takes to see each unlabelled one once.
        sampling: how labelled pictures are drawn.
    """

    labels: NDArray[np.int64]
    batch_size: int
    ratio: int
    samples: int | None
    sampling: ClassSampling

    @property
    def labelled(self) -> NDArray[np.int64]:
        """Where pictures with a label are."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def unlabelled(self) -> NDArray[np.int64]:
        """Where pictures without a label are."""
        return np.flatnonzero(self.labels < 0)

    @property
    def steps(self) -> int:
        """Batches in an epoch; none has a single picture of a kind, on which batch normalisation fails."""
        if self.samples is not None:
            return min(ceil(self.samples / self.batch_size), self.samples // 2)
        return max(
            ceil(len(self.labelled) / self.batch_size),
            ceil(len(self.unlabelled) / (self.batch_size * self.ratio)),
        )

    def batches(self, random: np.random.Generator) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Positions of labelled and of unlabelled pictures, batch by batch.

        Both streams have as many batches; the one with fewer pictures begins again, in a new order, as often
        as it must. A client without pictures of one kind has empty batches of it.
        """
        total = self.steps * self.batch_size if self.samples is None else self.samples
        named, unnamed = self.labelled, self.unlabelled
        if len(named):
            named = named[epoch_order(self.labels[named], self.sampling, random, total)]
        if len(unnamed):
            unnamed = unnamed[repeated(len(unnamed), total * self.ratio, random)]
        parts = (np.array_split(stream, self.steps) for stream in (named, unnamed))
        yield from zip(*parts, strict=True)

"""What the interval of a figure is computed from: counts, and how alike pictures of one lesion are."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.block import Block
from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.counts.histograms import Counts
from registry.bundle.metrics.design_effect import DesignEffect

C = TypeVar("C", bound=HasConfusion, covariant=True)


@dataclass(frozen=True)
class Sample(Generic[C]):
    """Counts of some pictures, which may carry leading axes, and their design effect.

    Attributes:
        counts: of a block, or a confusion matrix alone.
        effect: that of the block which they are, or are a part of.
        noise: the variance of the noise on each number that was told; sums of rows are without.
    """

    counts: C
    effect: DesignEffect
    noise: float = 0.0


def sample_of(block: Block) -> Sample[Counts]:
    """A block as a sample."""
    noise = 0.0 if block.noisy is None else block.noisy.variance
    return Sample(block.point, DesignEffect.of(block), noise)


def of_noise(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """What noise of variance 1 on each number adds to the variance of a figure, `(...)`.

    Args:
        slopes: of the figure, by numbers whose sum is known, `(..., numbers)`: only what differs from their
            mean moves it.
    """
    centred = slopes - slopes.mean(axis=-1, keepdims=True)
    return np.asarray((centred**2).sum(axis=-1))

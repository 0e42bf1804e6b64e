"""What the interval of a figure is computed from: counts, and how alike pictures of one lesion are."""

from dataclasses import dataclass
from typing import Generic, TypeVar

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
        noise: the variance of the noise in each cell that was told with noise; 0 where there is none.
    """

    counts: C
    effect: DesignEffect
    noise: float = 0.0


def sample_of(block: Block) -> Sample[Counts]:
    """A block as a sample."""
    noise = 0.0 if block.noisy is None else block.noisy.variance
    return Sample(block.point, DesignEffect.of(block), noise)

"""Counts as other test pictures could have given, drawn at the coordinator from the sums that were told.

If every picture of a bin counts w times, w ~ Poisson(1), the bin of c pictures holds Poisson(c): the
bootstrap over independent pictures (Chamandy et al. 2012) needs nothing but the sums. Where lesions have
several pictures, a bin of c is worth c / deff independent ones, and Poisson(c / deff) is drawn; figures are
ratios, and do not mind that a replicate is of fewer pictures.

Each histogram is drawn by itself: figures are of one of them at a time.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.counts.lesion_sums import LesionSums, design_effects
from registry.bundle.counts.noisy import NoisyCounts

REPLICATES = 200


def resample(counts: Counts, right: LesionSums, replicates: int = REPLICATES) -> Counts:
    """Replicates of some counts, `(replicates, ...)`; the same counts always give the same.

    Args:
        counts: without a leading axis.
        right: the sums by lesion of right answers by true class.
        replicates: how many.
    """
    generator = _generator(counts.to_arrays())
    effect, _ = design_effects(right)

    def draw(array: NDArray[np.int64]) -> NDArray[np.int64]:
        return generator.poisson(array / effect, size=(replicates, *array.shape)).astype(np.int64)

    return Counts(
        draw(counts.confusion), draw(counts.scores), draw(counts.malignancy), draw(counts.confidence)
    )


def resample_noisy(noisy: NoisyCounts, replicates: int = REPLICATES) -> Counts:
    """Replicates of counts with noise: other pictures, other noise, and the same way to consistent counts.

    Args:
        noisy: as they were told.
        replicates: how many.
    """
    generator = _generator(noisy.to_arrays())
    counts = noisy.consistent()

    def pictures(values: NDArray[np.int64]) -> NDArray[np.int64]:
        expected = np.maximum(values, 0)  # a histogram keeps its negative numbers, about which others vary
        return values + generator.poisson(expected, size=(replicates, *values.shape)) - expected

    def told(exact: NDArray[np.int64]) -> NDArray[np.int64]:
        noise = generator.normal(scale=np.sqrt(noisy.variance), size=exact.shape)
        return exact + np.rint(noise).astype(np.int64)

    matrix = pictures(counts.confusion)
    drawn = replace(noisy, matrix=told(matrix), patients=matrix.sum(axis=-1))
    if noisy.histogram is not None:
        histogram = pictures(counts.scores[1] if counts.num_classes == 2 else counts.malignancy)
        drawn = replace(drawn, histogram=told(histogram), sides=np.maximum(histogram.sum(axis=-1), 0))
    return drawn.consistent()


def _generator(arrays: Mapping[str, NDArray[np.int32]]) -> np.random.Generator:
    """Random numbers that follow from some arrays."""
    content = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values()))
    return np.random.Generator(np.random.PCG64(int.from_bytes(content.digest()[:8], "big")))

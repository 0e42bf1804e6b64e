"""Counts as other test pictures could have given, drawn at the coordinator from the sums that were told.

If every picture of a bin counts w times, w ~ Poisson(1), the bin of c pictures holds Poisson(c): the
bootstrap over independent pictures (Chamandy et al. 2012) needs nothing but the sums. Where lesions have
several pictures, a bin of c is worth c / deff independent ones, and Poisson(c / deff) is drawn; figures are
ratios, and do not mind that a replicate is of fewer pictures.

Each histogram is drawn by itself: figures are of one of them at a time.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.histograms import Counts
from registry.bundle.counts.lesion_sums import LesionSums, design_effects

REPLICATES = 200


def resample(counts: Counts, right: LesionSums, replicates: int = REPLICATES) -> Counts:
    """Replicates of some counts, `(replicates, ...)`; the same counts always give the same.

    Args:
        counts: without a leading axis.
        right: the sums by lesion of right answers by true class.
        replicates: how many.
    """
    arrays = counts.to_arrays()
    content = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values()))
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(content.digest()[:8], "big")))
    effect, _ = design_effects(right)

    def draw(array: NDArray[np.int64]) -> NDArray[np.int64]:
        return generator.poisson(array / effect, size=(replicates, *array.shape)).astype(np.int64)

    return Counts(
        draw(counts.confusion), draw(counts.scores), draw(counts.malignancy), draw(counts.confidence)
    )

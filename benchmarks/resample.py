"""Counts as other test pictures could have given, drawn from the sums that were told.

If every picture of a bin counts w times, w ~ Poisson(1), the bin of c pictures holds Poisson(c): the
bootstrap over independent pictures (Chamandy et al. 2012) needs nothing but the sums. Where lesions have
several pictures, a bin of c is worth c / deff independent ones, and Poisson(c / deff) is drawn; figures are
ratios, and do not mind that a replicate is of fewer pictures.

Each histogram is drawn by itself: figures are of one of them at a time.
"""

import hashlib
from dataclasses import fields

import numpy as np

from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Counts
from registry.bundle.metrics.intervals import sample_of

REPLICATES = 200


def resample(block: Block, replicates: int = REPLICATES) -> Counts:
    """Replicates of a block, `(replicates, ...)`; the same counts always give the same."""
    arrays = [getattr(block.point, each.name) for each in fields(Counts)]
    content = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(content.digest()[:8], "big")))
    by_class = block.point.confusion.sum(axis=-1).astype(np.float64)
    effect = sample_of(block).effect.of_pictures(by_class)
    drawn = (generator.poisson(array / effect, size=(replicates, *array.shape)) for array in arrays)
    return Counts(*(each.astype(np.int64) for each in drawn))

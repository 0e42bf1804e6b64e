"""Which pictures a local epoch draws, and in which order."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Sampling = Literal["class-balanced", "uniform"]


def epoch_order(
    labels: NDArray[np.int64], sampling: Sampling, random: np.random.Generator
) -> NDArray[np.int64]:
    """Positions `(n,)` of one epoch over n pictures.

    `uniform` is a permutation. `class-balanced` draws n pictures with replacement so that every class that
    the client holds is expected equally often ("resampling", Xu et al. 2023, section V).
    """
    n = len(labels)
    if sampling == "uniform":
        return random.permutation(n)
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    probabilities = 1.0 / (len(classes) * counts[inverse])
    return random.choice(n, size=n, p=probabilities / probabilities.sum())


def in_batches(order: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """`order` cut into batches; a last batch of one picture joins the one before it.

    A batch of one has no variance, on which batch normalisation fails.
    """
    cuts = list(range(batch_size, len(order), batch_size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()
    return np.split(order, cuts)

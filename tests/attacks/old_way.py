"""What a hospital would send without merging and rounding: the control, on which every attack succeeds.

Its histograms have 500 equal bins, many of one picture alone, and come with bootstrap replicates in which all
pictures of a lesion count w times, w ~ Poisson(1), drawn with a seed that the coordinator knows.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from registry.bundle.score_bins import ScoreBins, bins_of
from training.randomness import derive_seed

BINS = 500
REPLICATES = 200


def middle_of(bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """The score that stands for a bin: off by 1/1000 at most."""
    return (np.asarray(bins) + 0.5) / BINS


def bins_of_either(count: int) -> ScoreBins:
    """The bins of which there are so many: of today's counts, or of that version."""
    if count != BINS:
        return bins_of(count)
    return ScoreBins("equal-500", np.arange(BINS + 1) / BINS, middle_of(np.arange(BINS)))


def bin_of(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.clip(np.floor(np.asarray(scores, dtype=np.float64) * BINS).astype(np.int64), 0, BINS - 1)


def weights(
    seed: int, client: str, subgroup: str, lesions: int, replicates: int = REPLICATES
) -> NDArray[np.int64]:
    """How often each lesion counts in each replicate, `(replicates, lesions)`; the seed tells."""
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "bootstrap", client, subgroup)))
    return np.stack([generator.poisson(1.0, size=lesions) for _ in range(replicates)]).astype(np.int64)


def release(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    of_lesions: NDArray[np.int64],
    lesions: NDArray[np.int64] | None = None,
    parts: Mapping[str, NDArray[np.bool_]] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """The arrays of one subgroup; row 0 of each is the count itself, the others are its replicates.

    Args:
        probabilities: `(pictures, classes)`.
        labels: `(pictures,)`.
        malignant: which classes are, `(classes,)`.
        of_lesions: what `weights` gives, `(replicates, lesions)`.
        lesions: number of each picture's lesion, `(pictures,)`; by default each is its own.
        parts: which pictures share a trait, by the name of the cell's array.
    """
    n, classes = probabilities.shape
    owners = np.arange(n) if lesions is None else np.unique(lesions, return_inverse=True)[1]
    times = np.concatenate([np.ones((1, n), dtype=np.int64), of_lesions[:, owners]])
    answers = probabilities.argmax(axis=1)

    def counted(cells: NDArray[np.int64], size: int, keep: NDArray[np.bool_] | None = None):
        rows = np.zeros((len(times), size), dtype=np.int64)
        chosen = slice(None) if keep is None else keep
        np.add.at(rows.T, cells[chosen], times.T[chosen])
        return rows

    def two_sided(scores: NDArray[np.float64], so: NDArray[np.bool_]):
        return counted(so * BINS + bin_of(scores), 2 * BINS).reshape(-1, 2, BINS)

    pairs = labels * classes + answers
    matrix = (len(times), classes, classes)
    return {
        "confusion": counted(pairs, classes**2).reshape(matrix),
        "scores": np.stack([two_sided(probabilities[:, k], labels == k) for k in range(classes)], axis=1),
        "malignancy": two_sided(probabilities[:, malignant].sum(axis=1), malignant[labels]),
        "confidence": two_sided(probabilities.max(axis=1), answers == labels),
        **{name: counted(pairs, classes**2, keep).reshape(matrix) for name, keep in (parts or {}).items()},
    }

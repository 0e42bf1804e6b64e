"""The working point: the highest threshold on malignancy that is shown to miss few malignant lesions.

A lesion is suspicious iff score_bin(p) ≥ threshold_bin, p the summed probability of the malignant classes. If
x of n malignant calibration lesions are at a threshold or above, its sensitivity has the lower exact limit

    low(x) = B(1 − level; x, n − x + 1),  B(q; a, b) the q-quantile of Beta(a, b)

(Clopper & Pearson 1934). The fewest x with low(x) ≥ target depend on n alone, and the highest threshold that
so many reach is their score of a rank that n decides: a tolerance limit (Wilks 1941). So however scores are
distributed, the true sensitivity is below low(x) in at most 1 − level of all calibrations, though all
thresholds were looked at. It takes ⌈log(1 − level) / log(target)⌉ malignant lesions, 59 for 0.95, none of
them missed. With fewer, the lowest score is taken, which misses none, and `sensitivity_low` is low(n).

Hospitals count neighbours in runs, each at or below its lowest score: a threshold has at least as many
malignant lesions at or above it as is told. So the limit holds, and merging costs specificity.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.counts.merged_bins import lowest, merge
from registry.bundle.counts.score_bins import SCORE_BINS, malignancy_probability, score_bin
from registry.bundle.metrics.exact import exact_low
from training.errors import MessageError
from training.messages.message import Tensors, Update

LEVEL: Final = 0.95
"""In so many of all calibrations the true sensitivity is as high as is told."""

HISTOGRAM: Final = "malignancy"


@dataclass(frozen=True)
class WorkingPoint:
    """The lowest malignancy that is suspicious.

    Attributes:
        target: the sensitivity that was asked for.
        level: how sure it is that `sensitivity_low` is reached, over all calibrations.
        threshold_bin: suspicious iff score_bin(p) ≥ this.
        sensitivity_low: the lower limit of the share of malignant lesions that are suspicious.
        n: malignant calibration lesions.
        reached: whether `sensitivity_low` is the target or more.
    """

    target: float
    level: float
    threshold_bin: int
    sensitivity_low: float
    n: int
    reached: bool


def fit_working_point(malignancy: NDArray[np.int64], target: float) -> WorkingPoint | None:
    """The highest threshold that is shown to reach the target, or else the highest that misses nothing.

    Args:
        malignancy: calibration lesions that are not malignant (0) and malignant (1) by their malignancy, one
            picture of each, `(2, bins)`.
        target: the sensitivity that is asked for.

    Returns:
        The working point; None without malignant lesions.
    """
    of_malignant = malignancy[1]
    n = int(of_malignant.sum())
    if not n:
        return None
    fewest = bisect_left(range(n + 1), target, key=lambda found: sensitivity_low(found, n))
    found = min(fewest, n)
    at_or_above = of_malignant[::-1].cumsum()[::-1]
    threshold_bin = int(np.flatnonzero(at_or_above >= found)[-1])
    return WorkingPoint(target, LEVEL, threshold_bin, sensitivity_low(found, n), n, fewest <= n)


def sensitivity_low(found: int, n: int) -> float:
    """The lower limit of the sensitivity where so many of n malignant lesions were found."""
    one_sided = 2 * LEVEL - 1  # its interval leaves 1 − LEVEL on each side
    return float(exact_low(np.array(float(found)), np.array(float(n)), one_sided))


def no_malignancies() -> NDArray[np.int64]:
    """The empty histogram."""
    return np.zeros((2, SCORE_BINS), dtype=np.int64)


def count_malignancies(
    probabilities: NDArray[Any],
    labels: NDArray[np.int64],
    malignant: NDArray[np.bool_],
    patients: NDArray[np.int64],
    smallest_cell: int,
) -> NDArray[np.int64]:
    """The histogram `(2, bins)` of pictures that are not malignant and malignant; those of clients add up.

    Args:
        probabilities: `(pictures, classes)`.
        labels: class indices `(pictures,)`.
        malignant: which classes are malignant, `(classes,)`.
        patients: of each picture, `(pictures,)`.
        smallest_cell: the fewest patients of an occupied bin.
    """
    scores = score_bin(malignancy_probability(probabilities, malignant))
    merged = merge(scores, patients, smallest_cell, lowest, from_below=True)
    sides = np.bincount(malignant[labels] * SCORE_BINS + merged, minlength=2 * SCORE_BINS)
    return sides.astype(np.int64).reshape(2, SCORE_BINS)


def to_tensors(histogram: NDArray[np.int64]) -> dict[str, torch.Tensor]:
    """The histogram as a tensor to send."""
    return {HISTOGRAM: torch.from_numpy(histogram.astype(np.int32))}


def read_malignancies(update: Update) -> NDArray[np.int64]:
    """Read the histogram of an update.

    Raises:
        MessageError: it is none.
    """
    tensors: Tensors = update.tensors
    tensor, shape = tensors.get(HISTOGRAM), no_malignancies().shape
    if tensor is None or tensor.shape != shape or tensor.is_floating_point() or (tensor < 0).any():
        found = "nothing" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
        raise MessageError(
            f"{update.client} sent {found} as its histogram of malignancy; expected whole numbers from 0 on, "
            f"of shape {shape}"
        )
    counts: NDArray[np.int64] = tensor.numpy().astype(np.int64)
    return counts

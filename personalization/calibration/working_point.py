"""The working point: the highest threshold on malignancy that is shown to miss few malignant lesions.

A lesion is suspicious iff score_bin(p) ≥ threshold_bin, p the summed probability of the malignant classes. If
x of n malignant calibration lesions are at a threshold or above, its sensitivity has the lower exact limit

    low(x) = B(1 − level; x, n − x + 1),  B(q; a, b) the q-quantile of Beta(a, b)

(Clopper & Pearson 1934). The fewest x with low(x) ≥ target depend on n alone, and the highest threshold at
which so many are found is taken, of those that merged histograms propose: that their labels proposed them
costs nothing (`personalization.calibration.at_thresholds`). It takes ⌈log(1 − level) / log(target)⌉ malignant
lesions, 59 for 0.95, none of them missed. With fewer, the highest threshold that misses none is taken, and
`sensitivity_low` is low(n). Where there is none, it is bin 0, and every lesion is suspicious.

Hospitals count neighbours in runs, each at or below its lowest score: a threshold has at least as many
malignant lesions at or above it as their histogram tells. So the limit holds without exact counts too, and
merging costs specificity.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import LEVEL, CountsAt, largest_shown, most_allowed, propose
from registry.bundle.counts.score_bins import SCORE_BINS, lowest, malignancy_probability, merge, score_bin
from registry.bundle.metrics.intervals import exact_low
from training.errors import MessageError
from training.messages.message import Tensors, Update

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


def propose_working_points(malignancy: NDArray[np.int64], target: float) -> tuple[int, ...]:
    """Thresholds to count at: score bins, rising; none without malignant lesions.

    Args:
        malignancy: calibration lesions that are not malignant (0) and malignant (1) by their malignancy, one
            picture of each, `(2, bins)`.
        target: the sensitivity that is asked for.
    """
    n = int(malignancy[1].sum())
    return propose(malignancy[1:], [allowed_misses(n, target)]) if n else ()


def fit_working_point(counts: CountsAt, target: float) -> WorkingPoint | None:
    """The highest threshold that is shown to reach the target, or else the highest that misses nothing.

    Args:
        counts: of lesions that are not malignant (0) and malignant (1), one picture of each.
        target: the sensitivity that is asked for.

    Returns:
        The working point; None without malignant lesions.
    """
    n = int(counts.n[1])
    if not n:
        return None
    missed = allowed_misses(n, target)
    threshold_bin = largest_shown(CountsAt(counts.thresholds, counts.between[1:]), [missed]) or 0
    low = sensitivity_low(n - missed, n)
    return WorkingPoint(target, LEVEL, threshold_bin, low, n, most_allowed(n, 1 - target) >= 0)


def allowed_misses(n: int, target: float) -> int:
    """The most misses of n malignant lesions that show the target; 0 where not even none does."""
    return max(most_allowed(n, 1 - target), 0)


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

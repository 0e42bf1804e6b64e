"""The working point: the highest threshold on malignancy that is shown to miss few malignant lesions.

A lesion is suspicious iff score_bin(p) ≥ threshold_bin, p the summed probability of the malignant classes. If
x of n malignant calibration lesions are at a threshold or above, its sensitivity has the lower exact limit

    low(x) = B(1 − level; x, n − x + 1),  B(q; a, b) the q-quantile of Beta(a, b)

(Clopper & Pearson 1934). The fewest x with low(x) ≥ target depend on n alone, and the highest threshold at
which so many are found is taken, of those that merged histograms propose: that their labels proposed them
costs nothing (`personalization.calibration.at_thresholds`). It takes ⌈log(1 − level) / log(target)⌉ malignant
lesions, 59 for 0.95, none of them missed. With fewer, the highest threshold that misses none is taken, and
`sensitivity_low` is low(n). Where there is none, it is bin 0, and every lesion is suspicious.

Hospitals count malignant neighbours in runs, each at or below its lowest score
(`personalization.calibration.triage`): a threshold has at least as many malignant lesions at or above it as
their histogram tells. So the limit holds without exact counts too, and merging costs specificity.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import LEVEL, CountsAt, largest_shown, most_allowed, propose
from registry.bundle.metrics.intervals import exact_low


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
        malignancy: malignant calibration lesions by their malignancy, one picture of each, `(bins,)`.
        target: the sensitivity that is asked for.
    """
    n = int(malignancy.sum())
    return propose(malignancy[np.newaxis], [allowed_misses(n, target)]) if n else ()


def fit_working_point(counts: CountsAt, target: float) -> WorkingPoint | None:
    """The highest threshold that is shown to reach the target, or else the highest that misses nothing.

    Args:
        counts: of malignant lesions, one picture of each, a single row.
        target: the sensitivity that is asked for.

    Returns:
        The working point; None without malignant lesions.
    """
    n = int(counts.n[0])
    if not n:
        return None
    missed = allowed_misses(n, target)
    threshold_bin = largest_shown(counts, [missed]) or 0
    low = sensitivity_low(n - missed, n)
    return WorkingPoint(target, LEVEL, threshold_bin, low, n, most_allowed(n, 1 - target) >= 0)


def allowed_misses(n: int, target: float) -> int:
    """The most misses of n malignant lesions that show the target; 0 where not even none does."""
    return max(most_allowed(n, 1 - target), 0)


def sensitivity_low(found: int, n: int) -> float:
    """The lower limit of the sensitivity where so many of n malignant lesions were found."""
    one_sided = 2 * LEVEL - 1  # its interval leaves 1 − LEVEL on each side
    return float(exact_low(np.array(float(found)), np.array(float(n)), one_sided))

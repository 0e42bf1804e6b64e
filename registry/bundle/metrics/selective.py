"""Selective prediction: risk and coverage, and what the thresholds of a model do to test pictures.

At a threshold of confidence, coverage is the share of pictures that are answered and risk the share of wrong
answers among them (Geifman & El-Yaniv 2017).

With the order of confidence given, the area under the risk-coverage curve is AURC = Σ_b w_b x_b of x_b wrong
answers of confidence b, and w_b what one adds there: those of high confidence add most. Its variance is
Σ_b d w_b² x_b with d the design effect, as of Poisson counts. It is smoothed by half a wrong answer of the
largest weight that there is (as the upper limit of Fay & Feuer 1997 by a whole one), so that no wrong answer
is not certain. The limits follow (`Moments`).

What thresholds do is counted by clients at those thresholds, so it is exact. At a working point there are
also sensitivity and specificity: the share of malignant pictures that are suspicious, and of others that are
not. Intervals are of lesions: with x of n pictures so and the cluster-robust variance Σ_g (x_g − r n_g)² / n²
of r = x / n, r is as certain as x / deff of n / deff independent pictures, deff being that variance over
r (1 − r) / n and at least 1 (Korn & Graubard 1998).
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts import Counts, Decisions, KindSums
from registry.bundle.lesion_counts import LesionSums
from registry.bundle.metrics.intervals import (
    Figure,
    Moments,
    Sample,
    Z,
    clopper_pearson,
    harmonic_between,
    ratio,
)


def aurc(counts: Counts) -> Figure:
    """Area under the risk-coverage curve: the mean over i = 1..n of the risk among the i most confident.

    Pictures of one score bin are equally confident, and enter in expectation over their order. With
    N pictures of which W wrong above the bin, and m of which w wrong in it, they add
    sum_{j=1..m} (W + w j/m) / (N + j) = W h + w/m (m - N h), where h = sum_{j=1..m} 1/(N + j).
    """
    wrong, total = counts.confidence[..., 0, ::-1], counts.confidence.sum(axis=-2)[..., ::-1]
    wrong_above = np.cumsum(wrong, axis=-1) - wrong
    above = np.cumsum(total, axis=-1) - total
    n = total.sum(axis=-1)
    h = harmonic_between(above, above + total)
    share_wrong = wrong / np.maximum(total, 1)
    return ratio((wrong_above * h + share_wrong * (total - above * h)).sum(axis=-1), n)


_HALF, _MOST = 0.5, 0.999


def aurc_variance(sample: Sample[Counts]) -> Moments:
    """AURC, `(...)`."""
    counts = sample.counts
    wrong, total = counts.confidence[..., 0, ::-1], counts.confidence.sum(axis=-2)[..., ::-1]
    weight = _weights(total)
    effect = sample.effect.of_pictures(counts.confusion.sum(axis=-1).astype(np.float64))
    largest = np.where(total > 0, weight, 0.0).max(axis=-1) * effect
    value = aurc(counts)
    variance = (weight**2 * wrong).sum(axis=-1) * effect + _HALF * largest**2
    return Moments(value, np.minimum(np.nan_to_num(value) + _HALF * largest, _MOST), variance, value, value)


def _weights(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a wrong answer adds to the area, `(..., bins)`, of so many pictures from high to low confidence.

    In `selective.aurc`, W h + w/m (m − N h), it is in W of every bin below its own, and in w of its own.
    """
    above = np.cumsum(total, axis=-1) - total
    n = np.maximum(total.sum(axis=-1, keepdims=True), 1)
    own = 1 - above * harmonic_between(above, above + total) / np.maximum(total, 1)
    below = harmonic_between(above + total, np.broadcast_to(n, total.shape))
    return np.asarray((own + below) / n)


_SHARES: Final = {
    "coverage": "covered",
    "answered": "answered",
    "reported": "reported",
    "reported_risk": "wrong",
    "set_size": "set_sizes",
}
_AT_WORKING_POINT: Final = {"sensitivity_at_threshold": "suspicious", "specificity_at_threshold": "cleared"}


def decided(decisions: Decisions, kinds: KindSums | None = None) -> dict[str, Any]:
    """`coverage`, `answered`, `reported`, `reported_risk`, `set_size` and their `intervals`, for JSON.

    And sensitivity and specificity at the working point, where the model has one; and with counts by kind,
    what triage does to malignant lesions and to others, where it has that.
    """
    names = _SHARES | (_AT_WORKING_POINT if decisions.at_working_point else {})
    sums: dict[str, LesionSums] = {name: getattr(decisions, share) for name, share in names.items()}
    if kinds is not None and kinds.triaged:
        for share in ("ruled_out", "urgent"):
            rows: LesionSums = getattr(kinds, share)
            sums |= {f"{share}_malignant": rows[1:].total, f"{share}_other": rows[:1]}
    intervals = {
        name: (mean_interval(of) if name == "set_size" else share_interval(of)) for name, of in sums.items()
    }
    return {**{name: mean_of(of) for name, of in sums.items()}, "intervals": intervals}


OF_KINDS: Final[Mapping[str, str]] = {
    "malignant_sensitivity": "found",
    "sensitivity_at_threshold": "suspicious",
    "ruled_out": "ruled_out",
    "urgent": "urgent",
}
"""Metrics of a kind of malignancy, and which share of its pictures each is."""


def by_kind(sums: KindSums, kinds: Sequence[str]) -> dict[str, Any]:
    """Of each kind of malignancy that there are pictures of: `n`, `OF_KINDS` and their `intervals`."""
    found = {}
    for row, kind in enumerate(kinds, start=1):
        shares = sums.of(row)
        own = {name: shares[share] for name, share in OF_KINDS.items() if share in shares}
        if n := int(sums.found.n[row]):
            intervals = {name: share_interval(of) for name, of in own.items()}
            found[kind] = {"n": n, **{name: mean_of(of) for name, of in own.items()}, "intervals": intervals}
    return found


def mean_of(sums: LesionSums) -> float | None:
    """X / n of one share; None of no pictures."""
    return float(sums.x[0] / sums.n[0]) if sums.n[0] else None


def _robust_variance(sums: LesionSums) -> float:
    """Σ_g (x_g − r n_g)² / n² of one share."""
    r = sums.x[0] / sums.n[0]
    return float(sums.xx[0] - 2 * r * sums.xn[0] + r**2 * sums.nn[0]) / float(sums.n[0]) ** 2


def share_interval(sums: LesionSums) -> list[float] | None:
    """The 95 % interval of one share; None of no pictures."""
    n = int(sums.n[0])
    if not n:
        return None
    r = sums.x[0] / n
    binomial = r * (1 - r) / n
    largest = float(sums.nn[0]) / n  # where pictures of a lesion are all alike
    effect = largest if not binomial else min(max(_robust_variance(sums) / binomial, 1.0), largest)
    return list(clopper_pearson(sums.x[0] / effect, n / effect))


def mean_interval(sums: LesionSums) -> list[float] | None:
    """The 95 % interval of a mean of whole numbers, by its standard error; None of no pictures."""
    mean = mean_of(sums)
    if mean is None:
        return None
    half = Z * sqrt(max(_robust_variance(sums), 0.0))
    return [mean - half, mean + half]

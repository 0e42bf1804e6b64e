"""Limits of fairness figures, from those of the subgroups' accuracies, which are independent of each other.

`spread`, `gap` and the square root of `variance` are distances (`distances`): their upper limit is the
0.975-quantile of T(v̂ + e), with e normal and as wide as the farther of each accuracy's two limits. `worst` is
the mean of min(acc(s), acc(¬s)), which noise lowers: its lower limit is the 0.025-quantile, and its upper one
lies above it by the 0.975-quantile of what max(e_s, e_¬s) is in the mean.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics import fairness
from registry.bundle.metrics.distances import Distance, Size, drawn
from registry.bundle.metrics.limits import Limits
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.shares import ACCURACY, RECALLS, mean_share

Subgroups = Mapping[str, Sample[HasConfusion]]


def accuracy_limits(subgroups: Subgroups) -> Limits:
    """Accuracies, `(..., subgroups)`."""
    return Limits.stack([mean_share(ACCURACY, of).limits() for of in subgroups.values()])


def standardised_limits(subgroups: Subgroups) -> Limits:
    """Accuracies at the class mix of all together, `(..., subgroups)`: means of recalls, weighted by it."""
    counts = {name: of.counts for name, of in subgroups.items()}
    mix = fairness.common_mix(counts, as_common_as_together=True).astype(np.float64)
    return Limits.stack([mean_share(RECALLS, of, mix).limits() for of in subgroups.values()])


def fairness_limits(subgroups: Subgroups) -> dict[str, Limits]:
    """Limits of every fairness figure, by name; none of fewer than two subgroups.

    Args:
        subgroups: those with pictures.
    """
    if len(subgroups) < 2:
        return {}
    n = np.stack([of.counts.n for of in subgroups.values()], axis=-1)
    standardised = standardised_limits(subgroups)
    return {
        **limits_between(accuracy_limits(subgroups), n),
        "spread_standardised": _limits(fairness.spread_of, standardised),
    }


def limits_between(accuracies: Limits, n: NDArray[np.int64]) -> dict[str, Limits]:
    """Limits of every figure that is of the accuracies alone, by name.

    Args:
        accuracies: of two subgroups or more, `(..., subgroups)`.
        n: their pictures, `(..., subgroups)`.
    """
    deviation = _limits(fairness.deviation_of, accuracies)
    return {
        "variance": Limits(*(each**2 for each in (deviation.value, deviation.low, deviation.high))),
        "gap": _limits(lambda of: fairness.gap_of(of, n), accuracies),
        "worst": _worst(accuracies, n),
        "spread": _limits(fairness.spread_of, accuracies),
    }


def _limits(size: Size, parts: Limits) -> Limits:
    high = np.quantile(size(parts.value + drawn(_even(parts))), 0.975, axis=0)
    return Distance(size, parts, high).limits()


def _even(parts: Limits) -> Limits:
    """With both limits as far away as the farther."""
    far = np.maximum(parts.high - parts.value, parts.value - parts.low)
    return Limits(parts.value, parts.value - far, parts.value + far)


def _worst(accuracies: Limits, n: NDArray[np.int64]) -> Limits:
    noise = drawn(_even(accuracies))
    value = fairness.worst_of(accuracies.value, n)
    low = np.quantile(fairness.worst_of(accuracies.value + noise, n), 0.025, axis=0)
    above = np.quantile(-fairness.worst_of(-noise, n), 0.975, axis=0)
    return Limits(value, np.maximum(low, 0.0), np.minimum(value + above, 1.0))

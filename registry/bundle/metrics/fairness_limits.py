"""Limits of fairness figures, from those of the subgroups' accuracies, which are independent of each other.

`spread`, `gap` and the square root of `variance` are distances (`distances`): their upper limit is the
0.975-quantile of T(v̂ + e), with e normal and as wide as the farther of each accuracy's two limits. `worst` is
the mean of min(acc(s), acc(¬s)), which noise lowers: its lower limit is the 0.025-quantile, and its upper one
lies above it by the 0.975-quantile of what max(e_s, e_¬s) is in the mean.
"""

from collections.abc import Mapping

import numpy as np

from registry.bundle.counts.confusion import HasConfusion
from registry.bundle.metrics import fairness
from registry.bundle.metrics.distances import Distance, Size, drawn
from registry.bundle.metrics.limits import Limits, mean_limits
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import Sample
from registry.bundle.metrics.shares import all_answers, per_class, recalls, single

Subgroups = Mapping[str, Sample[HasConfusion]]


def accuracy_limits(subgroups: Subgroups) -> Limits:
    """Accuracies, `(..., subgroups)`."""
    return Limits.stack([single(all_answers(of.counts.confusion.shape[-1]), of) for of in subgroups.values()])


def standardised_limits(subgroups: Subgroups, *, as_common_as_together: bool) -> Limits:
    """Accuracies at one class mix, `(..., subgroups)`: means of recalls, weighted by the mix (MOVER)."""
    counts = {name: of.counts for name, of in subgroups.items()}
    mix = fairness.common_mix(counts, as_common_as_together=as_common_as_together).astype(np.float64)
    return Limits.stack([mean_limits(per_class(recalls, of), mix) for of in subgroups.values()])


def fairness_limits(subgroups: Subgroups) -> dict[str, Limits]:
    """Limits of every fairness figure, by name; none of fewer than two subgroups.

    Args:
        subgroups: those with pictures.
    """
    if len(subgroups) < 2:
        return {}
    n = np.stack([of.counts.n for of in subgroups.values()], axis=-1)
    accuracies = accuracy_limits(subgroups)
    standardised = standardised_limits(subgroups, as_common_as_together=True)
    deviation = _limits(fairness.deviation_of, accuracies)
    return {
        "variance": Limits(*(each**2 for each in (deviation.value, deviation.low, deviation.high))),
        "gap": _limits(lambda of: fairness.gap_of(of, n), accuracies),
        "worst": _worst(accuracies, n),
        "spread": _limits(fairness.spread_of, accuracies),
        "spread_standardised": _limits(fairness.spread_of, standardised),
    }


def _limits(size: Size, parts: Limits) -> Limits:
    high = np.quantile(size(parts.value + drawn(_even(parts))), 0.975, axis=0)
    return Distance(size, parts, high).limits()


def _even(parts: Limits) -> Limits:
    """With both limits as far away as the farther."""
    far = np.maximum(parts.high - parts.value, parts.value - parts.low)
    return Limits(parts.value, parts.value - far, parts.value + far)


def _worst(accuracies: Limits, n: Figure) -> Limits:
    noise = drawn(_even(accuracies))
    value = fairness.worst_of(accuracies.value, n)
    low = np.quantile(fairness.worst_of(accuracies.value + noise, n), 0.025, axis=0)
    above = np.quantile(-fairness.worst_of(-noise, n), 0.975, axis=0)
    return Limits(value, np.maximum(low, 0.0), np.minimum(value + above, 1.0))

"""Fairness metrics: how far apart the accuracies of subgroups are, their limits, and differences of pairs.

acc_s is the accuracy on subgroup s, acc_not_s that on all pictures of the other subgroups together (paper
003). A subgroup without pictures is absent: it takes no part, and is never counted as 0. Every metric is nan
where fewer than two subgroups have pictures.

**Limits** follow from those of the subgroups' accuracies, which are independent of each other. `spread`,
`gap` and the square root of `variance` are distances (`calibration.Distance`): their upper limit is the
0.975-quantile of T(v̂ + e), with e normal and as wide as the farther of each accuracy's two limits. `worst` is
the mean of min(acc(s), acc(¬s)), which noise lowers: its lower limit is the 0.025-quantile, and its upper one
lies above it by the 0.975-quantile of what max(e_s, e_¬s) is in the mean.

**Differences** between pairs of subgroups are at one class mix. For subgroups a and b and a standardised
accuracy f over the classes that both have, d = f_a − f_b. Subgroups have different pictures, so with v_i the
variance of q_k r_k of a class of one of them (r its smoothed recall, `classification.Shares`, and q the class
mix), that of d is s² = Σ_i v_i, and

    interval d ± t_{0.975} s,   p = P(|T| > |d| / s),

with T of Student's distribution with ν = (Σ v_i)² / Σ v_i² / (n_i − 1) degrees of freedom (Satterthwaite
1946), n_i the effective number of pictures. So the interval leaves out 0 exactly where p < 0.05.

Many pairs give many chances to be wrong. Holm (1979) keeps the chance of calling any of m equal pairs
different at the level: with p_(1) ≤ … ≤ p_(m), the adjusted p_(i) is the largest of min(1, (m − j + 1) p_(j))
over j ≤ i.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.bundle.counting import Block
from registry.bundle.counts import Confusion
from registry.bundle.metrics.calibration import Distance, Size, drawn
from registry.bundle.metrics.classification import (
    ACCURACY,
    RECALLS,
    accuracy,
    each_share,
    mean_share,
    recalls,
)
from registry.bundle.metrics.intervals import LEVEL, Figure, Limits, Sample, mean_defined, ratio, sample_of

Subgroups = Mapping[str, Confusion]


def _accuracies(subgroups: Subgroups) -> Figure:
    """acc_s, `(..., subgroups)`; nan for an absent subgroup, and for all where there are not two."""
    if not subgroups:
        return np.full(1, np.nan)
    each = np.stack([accuracy(counts) for counts in subgroups.values()], axis=-1)
    comparable = (~np.isnan(each)).sum(axis=-1, keepdims=True) >= 2
    return np.where(comparable, each, np.nan)


def _pictures(subgroups: Subgroups) -> NDArray[np.int64]:
    """`(..., subgroups)`."""
    if not subgroups:
        return np.zeros(1, dtype=np.int64)
    return np.stack([counts.n for counts in subgroups.values()], axis=-1)


def _of_others(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """acc_not_s, `(..., subgroups)`; nan where no other subgroup has pictures."""
    right = np.where(n > 0, accuracies, 0.0) * n
    return ratio(right.sum(axis=-1, keepdims=True) - right, n.sum(axis=-1, keepdims=True) - n)


def deviation_of(accuracies: Figure) -> Figure:
    """The population standard deviation, the root of `variance`."""
    mean = mean_defined(accuracies)[..., np.newaxis]
    return np.sqrt(mean_defined((accuracies - mean) ** 2))


def gap_of(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """The mean of |acc_s - acc_not_s|."""
    return mean_defined(np.abs(accuracies - _of_others(accuracies, n)))


def worst_of(accuracies: Figure, n: NDArray[np.int64]) -> Figure:
    """The mean of min(acc_s, acc_not_s)."""
    return mean_defined(np.minimum(accuracies, _of_others(accuracies, n)))


def spread_of(accuracies: Figure) -> Figure:
    """Largest minus smallest of those that are defined, nan where none is."""
    defined = ~np.isnan(accuracies)
    largest = np.where(defined, accuracies, -np.inf).max(axis=-1)
    smallest = np.where(defined, accuracies, np.inf).min(axis=-1)
    none = ~defined.any(axis=-1)
    return np.where(none, np.nan, np.where(none, 0.0, largest) - np.where(none, 0.0, smallest))


def variance(subgroups: Subgroups) -> Figure:
    """(1/|S|) sum_s (acc_s - mean)^2: the population variance of the accuracies."""
    return deviation_of(_accuracies(subgroups)) ** 2


def gap(subgroups: Subgroups) -> Figure:
    """The mean over the subgroups of |acc_s - acc_not_s|."""
    return gap_of(_accuracies(subgroups), _pictures(subgroups))


def worst(subgroups: Subgroups) -> Figure:
    """The mean over the subgroups of min(acc_s, acc_not_s)."""
    return worst_of(_accuracies(subgroups), _pictures(subgroups))


def spread(subgroups: Subgroups) -> Figure:
    """max_s acc_s - min_s acc_s."""
    return spread_of(_accuracies(subgroups))


def standardised(subgroups: Subgroups, *, by_pictures: bool) -> Figure:
    """The accuracy each subgroup would have with one class mix, `(..., subgroups)`: sum_k q_k recall_{s,k}.

    q is over the classes that every subgroup with pictures has; nan where there is no such class. Subgroups
    differ in how common each disease is, and this takes that difference out.

    Args:
        subgroups: counts by name.
        by_pictures: q is the mix of all subgroups' pictures; else each class weighs the same, and the
            accuracy is a balanced one.
    """
    each = _accuracies(subgroups)
    if not subgroups:
        return each
    recall = np.stack([recalls(counts) for counts in subgroups.values()], axis=-2)
    mix = common_mix(subgroups, by_pictures=by_pictures)[..., np.newaxis, :]
    weighted = (np.where(np.isnan(recall), 0.0, recall) * mix).sum(axis=-1)
    at_mix = ratio(weighted, np.broadcast_to(mix.sum(axis=-1), weighted.shape))
    return np.where(np.isnan(each), np.nan, at_mix)


def common_mix(subgroups: Subgroups, *, by_pictures: bool) -> NDArray[np.int64]:
    """The weight of each class in a standardised metric, `(..., classes)`: 0 where a subgroup lacks it.

    Otherwise 1, or with `by_pictures` the number of its pictures in all subgroups.
    """
    support = np.stack([counts.confusion.sum(axis=-1) for counts in subgroups.values()])
    absent = (support.sum(axis=-1) == 0)[..., np.newaxis]
    common = (absent | (support > 0)).all(axis=0)
    return np.where(common, support.sum(axis=0) if by_pictures else 1, 0)


def spread_standardised(subgroups: Subgroups) -> Figure:
    """The spread of the accuracies standardised to the class mix of all together."""
    return spread_of(standardised(subgroups, by_pictures=True))


def fairness_limits(subgroups: Mapping[str, Sample[Confusion]]) -> dict[str, Limits]:
    """Limits of every fairness metric, by name; none of fewer than two subgroups.

    Args:
        subgroups: those with pictures.
    """
    if len(subgroups) < 2:
        return {}
    samples = subgroups.values()
    n = np.stack([of.counts.n for of in samples], axis=-1)
    accuracies = Limits.stack([mean_share(ACCURACY, of).limits() for of in samples])
    mix = common_mix({name: of.counts for name, of in subgroups.items()}, by_pictures=True).astype(float)
    at_one_mix = Limits.stack([mean_share(RECALLS, of, mix).limits() for of in samples])
    deviation = _limits(deviation_of, accuracies)
    return {
        "variance": Limits(*(each**2 for each in (deviation.value, deviation.low, deviation.high))),
        "gap": _limits(lambda of: gap_of(of, n), accuracies),
        "worst": _worst(accuracies, n),
        "spread": _limits(spread_of, accuracies),
        "spread_standardised": _limits(spread_of, at_one_mix),
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
    value = worst_of(accuracies.value, n)
    low = np.quantile(worst_of(accuracies.value + noise, n), 0.025, axis=0)
    above = np.quantile(-worst_of(-noise, n), 0.975, axis=0)
    return Limits(value, np.maximum(low, 0.0), np.minimum(value + above, 1.0))


DIFFERENCES: Final = {"accuracy_standardised": True, "balanced_accuracy_standardised": False}
"""The metrics that pairs are compared by, and whether the class mix is `by_pictures`."""


@dataclass(frozen=True)
class SubgroupDifference:
    """A difference d of a figure between two subgroups.

    Attributes:
        value: d.
        interval: its ends, cut at −1 and 1.
        p: two-sided.
    """

    value: float
    interval: tuple[float, float]
    p: float


def differences(blocks: Mapping[str, Block]) -> list[dict[str, Any]]:
    """The differences of every pair of subgroups with pictures, ready for JSON, in the order of `blocks`.

    A pair that has no class in common has no entry. p is adjusted over the pairs of a figure.
    """
    rows: list[dict[str, Any]] = []
    for name, by_pictures in DIFFERENCES.items():
        known = {
            (a, b): found
            for a, b in combinations([name for name, block in blocks.items() if block.point.n > 0], 2)
            if (found := difference(blocks[a], blocks[b], by_pictures=by_pictures)) is not None
        }
        adjusted = holm([each.p for each in known.values()])
        rows += [
            {
                "between": list(pair),
                "figure": name,
                "value": each.value,
                "interval": list(each.interval),
                "p": each.p,
                "p_adjusted": p_adjusted,
            }
            for (pair, each), p_adjusted in zip(known.items(), adjusted, strict=True)
        ]
    return rows


def difference(first: Block, second: Block, *, by_pictures: bool) -> SubgroupDifference | None:
    """The difference of the first subgroup to the second; None where no class is in both."""
    from scipy.special import stdtr, stdtrit  # see `intervals.exact_low`

    pair = {"first": first.point, "second": second.point}
    value = float(np.subtract(*standardised(pair, by_pictures=by_pictures)))
    if np.isnan(value):
        return None
    mix = common_mix(pair, by_pictures=by_pictures)
    variances, freedoms = [], []
    for sample in (sample_of(first), sample_of(second)):
        n = sample.counts.confusion.sum(axis=-1) / sample.effect.of_classes
        variances.append((mix / mix.sum()) ** 2 * each_share(RECALLS, sample).variance)
        freedoms.append(np.maximum(n - 1, 1))
    v, of = np.concatenate(variances), np.concatenate(freedoms)
    error, freedom = sqrt(float(v.sum())), float(v.sum() ** 2 / (v**2 / of).sum())
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error  # t_{0.975}
    p = 2 * float(stdtr(freedom, -abs(value / error)))
    return SubgroupDifference(value, (max(value - half, -1.0), min(value + half, 1.0)), p)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for how many there are (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.array(p_values, dtype=np.float64)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(scaled, 1.0))
    return adjusted.tolist()

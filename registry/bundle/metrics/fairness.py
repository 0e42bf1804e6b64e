"""Fairness metrics: how far apart the accuracies of subgroups are, their limits, and differences of pairs.

Fairness figures: how far apart the subgroups' accuracies are (paper 003).

acc_s is the accuracy on subgroup s, acc_not_s that on all pictures of the other subgroups together.
A subgroup without pictures is absent: it takes no part, and is never counted as 0. Every figure is
nan where fewer than two subgroups have pictures.

Each has a form that takes accuracies and pictures, `(..., subgroups)`.

Limits of fairness figures, from those of the subgroups' accuracies, which are independent of each other.

`spread`, `gap` and the square root of `variance` are distances (`distances`): their upper limit is the
0.975-quantile of T(v̂ + e), with e normal and as wide as the farther of each accuracy's two limits. `worst` is
the mean of min(acc(s), acc(¬s)), which noise lowers: its lower limit is the 0.025-quantile, and its upper one
lies above it by the 0.975-quantile of what max(e_s, e_¬s) is in the mean.

Differences between pairs of subgroups, at one class mix: intervals, p-values, and Holm's correction.

For subgroups a and b and a standardised accuracy f (`registry.bundle.metrics.fairness`, over the classes that
both have), d = f_a − f_b. Subgroups have different pictures, so with v_i the variance of q_k r_k of a class
of one of them (r its smoothed recall, `shares`, and q the class mix), that of d is s² = Σ_i v_i, and

    interval d ± t_{0.975} s,   p = P(|T| > |d| / s),

with T of Student's distribution with ν = (Σ v_i)² / Σ v_i² / (n_i − 1) degrees of freedom (Satterthwaite
1946), n_i the effective number of pictures. So the interval leaves out 0 exactly where p < 0.05.

Many pairs give many chances to be wrong. Holm (1979) keeps the chance of calling any of m equal pairs
different at the level: with p_(1) ≤ … ≤ p_(m), the adjusted p_(i) is the largest of min(1, (m − j + 1) p_(j))
over j ≤ i.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Confusion, Counts
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


def standardised_accuracies(subgroups: Subgroups) -> Figure:
    """The accuracy each subgroup would have with the class mix of all together, `(..., subgroups)`.

    sum_k q_k recall_{s,k}, where q is the mix of all subgroups' pictures over the classes that every
    subgroup with pictures has; nan where there is no such class. Subgroups differ in how common each
    disease is, and this takes that difference out.
    """
    return _over_common_classes(subgroups, as_common_as_together=True)


def standardised_balanced_accuracies(subgroups: Subgroups) -> Figure:
    """The mean recall of each subgroup over the classes that every subgroup has, `(..., subgroups)`.

    As `standardised_accuracies` with the same q for each of these classes.
    """
    return _over_common_classes(subgroups, as_common_as_together=False)


def _over_common_classes(subgroups: Subgroups, *, as_common_as_together: bool) -> Figure:
    each = _accuracies(subgroups)
    if not subgroups:
        return each
    recall = np.stack([recalls(counts) for counts in subgroups.values()], axis=-2)
    mix = common_mix(subgroups, as_common_as_together=as_common_as_together)[..., np.newaxis, :]
    weighted = (np.where(np.isnan(recall), 0.0, recall) * mix).sum(axis=-1)
    standardised = ratio(weighted, np.broadcast_to(mix.sum(axis=-1), weighted.shape))
    return np.where(np.isnan(each), np.nan, standardised)


def common_mix(subgroups: Subgroups, *, as_common_as_together: bool) -> NDArray[np.int64]:
    """The weight of each class in a standardised figure, `(..., classes)`: 0 where a subgroup lacks it.

    Otherwise 1, or with `as_common_as_together` the number of its pictures in all subgroups.
    """
    support = np.stack([counts.confusion.sum(axis=-1) for counts in subgroups.values()])
    absent = (support.sum(axis=-1) == 0)[..., np.newaxis]
    common = (absent | (support > 0)).all(axis=0)
    return np.where(common, support.sum(axis=0) if as_common_as_together else 1, 0)


def spread_standardised(subgroups: Subgroups) -> Figure:
    """The spread of the accuracies standardised to one class mix."""
    return spread_of(standardised_accuracies(subgroups))


SampledSubgroups = Mapping[str, Sample[Confusion]]


def accuracy_limits(subgroups: SampledSubgroups) -> Limits:
    """Accuracies, `(..., subgroups)`."""
    return Limits.stack([mean_share(ACCURACY, of).limits() for of in subgroups.values()])


def standardised_limits(subgroups: SampledSubgroups) -> Limits:
    """Accuracies at the class mix of all together, `(..., subgroups)`: means of recalls, weighted by it."""
    counts = {name: of.counts for name, of in subgroups.items()}
    mix = common_mix(counts, as_common_as_together=True).astype(np.float64)
    return Limits.stack([mean_share(RECALLS, of, mix).limits() for of in subgroups.values()])


def fairness_limits(subgroups: SampledSubgroups) -> dict[str, Limits]:
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
        "spread_standardised": _limits(spread_of, standardised),
    }


def limits_between(accuracies: Limits, n: NDArray[np.int64]) -> dict[str, Limits]:
    """Limits of every figure that is of the accuracies alone, by name.

    Args:
        accuracies: of two subgroups or more, `(..., subgroups)`.
        n: their pictures, `(..., subgroups)`.
    """
    deviation = _limits(deviation_of, accuracies)
    return {
        "variance": Limits(*(each**2 for each in (deviation.value, deviation.low, deviation.high))),
        "gap": _limits(lambda of: gap_of(of, n), accuracies),
        "worst": _worst(accuracies, n),
        "spread": _limits(spread_of, accuracies),
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


Pair = Mapping[str, Counts]


@dataclass(frozen=True)
class Standardised:
    """A figure of two subgroups at one class mix, `(2, ...)`, and the weight of each class in it."""

    figure: Callable[[Pair], Figure]
    mix: Callable[[Pair], NDArray[np.int64]]


DIFFERENCES: Mapping[str, Standardised] = {
    "accuracy_standardised": Standardised(
        standardised_accuracies, partial(common_mix, as_common_as_together=True)
    ),
    "balanced_accuracy_standardised": Standardised(
        standardised_balanced_accuracies, partial(common_mix, as_common_as_together=False)
    ),
}


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
    for name, standardised in DIFFERENCES.items():
        found = {
            (a, b): difference(blocks[a], blocks[b], standardised)
            for a, b in combinations([name for name, block in blocks.items() if block.point.n > 0], 2)
        }
        known = {pair: each for pair, each in found.items() if each is not None}
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


def difference(first: Block, second: Block, standardised: Standardised) -> SubgroupDifference | None:
    """The difference of the first subgroup to the second; None where no class is in both."""
    pair = {"first": first.point, "second": second.point}
    value = float(np.subtract(*standardised.figure(pair)))
    if np.isnan(value):
        return None
    variance, freedom = _variance(first, second, standardised.mix(pair))
    error = sqrt(variance)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error  # t_{0.975}
    ends = max(value - half, -1.0), min(value + half, 1.0)
    return SubgroupDifference(value, ends, student_tails(value / error, freedom))


def _variance(first: Block, second: Block, mix: NDArray[np.int64]) -> tuple[float, float]:
    """Σ v_i and its degrees of freedom ν, at least 1."""
    share = mix / mix.sum()
    variances, freedoms = [], []
    for sample in (sample_of(first), sample_of(second)):
        n = sample.counts.confusion.sum(axis=-1) / sample.effect.of_classes
        variances.append(share**2 * each_share(RECALLS, sample).variance)
        freedoms.append(np.maximum(n - 1, 1))
    v, of = np.concatenate(variances), np.concatenate(freedoms)
    return float(v.sum()), float(v.sum() ** 2 / (v**2 / of).sum())


def student_tails(t: float, freedom: float) -> float:
    """P(|T| > |t|), with T of Student's distribution."""
    return 2 * float(stdtr(freedom, -abs(t)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for how many there are (Holm 1979); None stays, and does not count."""
    known = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, position) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[position] = largest
    return adjusted

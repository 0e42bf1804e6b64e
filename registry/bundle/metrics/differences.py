"""Differences between pairs of subgroups, at one class mix: intervals, p-values, and Holm's correction.

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

from registry.bundle.counts.count import Block, Counts
from registry.bundle.metrics import fairness
from registry.bundle.metrics.limits import LEVEL
from registry.bundle.metrics.ratio import Figure
from registry.bundle.metrics.sample import sample_of
from registry.bundle.metrics.shares import RECALLS, each_share

Pair = Mapping[str, Counts]

_KEPT = 1024  # quantiles that are kept, for degrees of freedom that come again


@dataclass(frozen=True)
class Standardised:
    """A figure of two subgroups at one class mix, `(2, ...)`, and the weight of each class in it."""

    figure: Callable[[Pair], Figure]
    mix: Callable[[Pair], NDArray[np.int64]]


DIFFERENCES: Mapping[str, Standardised] = {
    "accuracy_standardised": Standardised(
        fairness.standardised_accuracies, partial(fairness.common_mix, as_common_as_together=True)
    ),
    "balanced_accuracy_standardised": Standardised(
        fairness.standardised_balanced_accuracies, partial(fairness.common_mix, as_common_as_together=False)
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

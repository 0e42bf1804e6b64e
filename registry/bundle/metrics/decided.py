"""Figures of what a model's thresholds do to test pictures: coverage, set size, referral, and its risk.

At a working point also sensitivity and specificity: the share of malignant pictures that are suspicious, and
of others that are not.

From counts that clients made at those thresholds, so exact. Intervals are of lesions: with x of n pictures so
and the cluster-robust variance Σ_g (x_g − r n_g)² / n² of r = x / n, r is as certain as x / deff of n / deff
independent pictures, deff being that variance over r (1 − r) / n and at least 1 (Korn & Graubard 1998).
"""

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

from registry.bundle.counts.decisions import Decisions
from registry.bundle.counts.lesion_sums import LesionSums
from registry.bundle.metrics.exact import clopper_pearson

_Z = 1.959963984540054  # the 0.975-quantile of the normal distribution

SHARES: Mapping[str, Callable[[Decisions], LesionSums]] = {
    "coverage": lambda decisions: decisions.covered,
    "reported": lambda decisions: decisions.reported,
    "reported_risk": lambda decisions: decisions.wrong,
}

AT_WORKING_POINT: Mapping[str, Callable[[Decisions], LesionSums]] = {
    "sensitivity_at_threshold": lambda decisions: decisions.suspicious,
    "specificity_at_threshold": lambda decisions: decisions.cleared,
}


def decided(decisions: Decisions) -> dict[str, Any]:
    """`coverage`, `reported`, `reported_risk` and `set_size`, with their `intervals`, ready for JSON.

    And `AT_WORKING_POINT`, where the model has one.
    """
    sums = {name: of(decisions) for name, of in SHARES.items()} | {"set_size": decisions.set_sizes}
    if decisions.at_working_point:
        sums |= {name: of(decisions) for name, of in AT_WORKING_POINT.items()}
    figures: dict[str, Any] = {name: mean_of(of) for name, of in sums.items()}
    figures["intervals"] = {
        name: (mean_interval(of) if name == "set_size" else share_interval(of)) for name, of in sums.items()
    }
    return figures


def mean_of(sums: LesionSums) -> float | None:
    """X / n of one share; None of no pictures."""
    return float(sums.x[0] / sums.n[0]) if sums.n[0] else None


def robust_variance(sums: LesionSums) -> float:
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
    effect = largest if not binomial else min(max(robust_variance(sums) / binomial, 1.0), largest)
    return list(clopper_pearson(sums.x[0] / effect, n / effect))


def mean_interval(sums: LesionSums) -> list[float] | None:
    """The 95 % interval of a mean of whole numbers, by its standard error; None of no pictures."""
    mean = mean_of(sums)
    if mean is None:
        return None
    half = _Z * sqrt(max(robust_variance(sums), 0.0))
    return [mean - half, mean + half]

"""Student's distribution, from the incomplete beta function."""

from registry.bundle.metrics.exact import bisect, incomplete_beta
from registry.bundle.metrics.limits import LEVEL

_FARTHEST = 1000.0  # no quantile that is asked for is larger


def student_tails(t: float, freedom: float) -> float:
    """P(|T| > |t|) = I_{ν / (ν + t²)}(ν / 2, 1 / 2)."""
    whole = freedom + t**2
    if t**2 < freedom:  # the same, without losing a small t beside 1
        return float(1 - incomplete_beta(t**2 / whole, 0.5, freedom / 2))
    return float(incomplete_beta(freedom / whole, freedom / 2, 0.5))


def student_quantile(freedom: float) -> float:
    """t_{0.975}."""
    return bisect(lambda t: student_tails(t, freedom) > 1 - LEVEL, 0.0, _FARTHEST)

"""Temperature scaling per subgroup, fitted from sums that clients can add up (Guo et al. 2017, section 4.2).

A client answers with the log-likelihood of its labels at every temperature of a fixed grid,
L(T) = Σ_i log softmax(z_i / T)[y_i], and the coordinator adds the answers: the pooled fit without a logit
leaving a client. L is concave in 1/T, so it has one maximum and the grid cannot find a wrong one. A single
positive scalar divides all logits, so calibration never changes the arg max.

Sums leave rounded: in double precision, those of a few pictures tell every one of their margins, and at T
near 0, where T L(T) is the sum of the wrong answers' margins, that of a single one. Grid points are 5 %
apart; a cubic in log T, through those as likely as the highest to two nats and three at least, brings the fit
to within 1 % of the exact maximum where pictures are many, and within three quarters of the fit's own
standard error where they are few, from T = 0.5 on; below, sums are coarser. A temperature that is no more
likely than 1, but for rounding, is 1, which changes nothing; one stays within the grid's ends.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from training.errors import DataError

# 0.05 to 20, evenly spaced in log T and symmetric about 0 there, so that T = 1 is on the grid exactly.
TEMPERATURES: NDArray[np.float64] = np.exp(np.linspace(-log(20), log(20), 121))
TEMPERATURES.flags.writeable = False

# Nats, to which a client's sum is rounded at every temperature; at T < 1 it is T times the sum.
RESOLUTION: NDArray[np.float64] = 0.25 * np.maximum(1 / TEMPERATURES, 1)
RESOLUTION.flags.writeable = False

STRENGTH = 20.0  # pictures that the global temperature counts for in a subgroup's

_AS_LIKELY = 2.0  # nats below the highest
_NO_MORE_LIKELY = 0.1  # nats above that of T = 1, which is within rounding


@dataclass(frozen=True)
class Temperature:
    """The temperature of one subgroup and the evidence for it.

    Attributes:
        value: what divides the logits.
        fitted: the subgroup's own fit before shrinking; None where it had too few pictures to use it.
        n: the subgroup's calibration pictures.
    """

    value: float
    fitted: float | None
    n: int


def log_likelihoods(logits: NDArray[np.floating], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """The log-likelihood of the labels at every grid temperature, summed over pictures.

    L(T) = Σ_i (z_i[y_i] / T − log Σ_k e^{z_i[k] / T}). Sums of several clients add up to the pooled sum.

    Args:
        logits: uncalibrated logits `(n, classes)`.
        labels: class indices `(n,)`.

    Returns:
        Sums `(len(TEMPERATURES),)` in nats, rounded to `RESOLUTION`; zeros for no pictures.

    Raises:
        DataError: a logit is not finite.
    """
    if not np.isfinite(logits).all():
        raise DataError("logits for calibration are not finite; the model diverged and cannot be calibrated")
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)  # a common shift changes no probability and keeps e^{z/T} from overflow
    of_label = z[np.arange(len(labels)), labels]
    sums = [(of_label / t - np.log(np.exp(z / t).sum(axis=1))).sum() for t in TEMPERATURES]
    return np.rint(np.array(sums, dtype=np.float64) / RESOLUTION) * RESOLUTION


def fit_temperature(log_likelihood_sums: NDArray[np.float64], n: int) -> float:
    """The temperature of highest likelihood, refined between grid points.

    The summit of the least-squares cubic in log T through the grid points around the highest whose sums are
    within two nats of it, and through its two neighbours.

    Args:
        log_likelihood_sums: what `log_likelihoods` returned, added over clients, `(len(TEMPERATURES),)`.
        n: pictures in the sums.

    Returns:
        A temperature in [0.05, 20]; 1 where there are no pictures.

    Raises:
        DataError: the sums are not finite or not one per grid temperature.
    """
    if log_likelihood_sums.shape != TEMPERATURES.shape or not np.isfinite(log_likelihood_sums).all():
        raise DataError(
            f"log-likelihood sums of shape {log_likelihood_sums.shape} cannot be fitted; "
            f"one finite sum for each of the {len(TEMPERATURES)} grid temperatures is needed"
        )
    if n == 0:
        return 1.0
    sums = log_likelihood_sums
    highest = int((sums - RESOLUTION / 2).argmax())
    if highest in (0, len(TEMPERATURES) - 1):
        return float(TEMPERATURES[highest])
    low = high = highest
    enough = sums[highest] - _AS_LIKELY
    while low > 0 and (low == highest or sums[low - 1] >= enough):
        low -= 1
    while high < len(sums) - 1 and (high == highest or sums[high + 1] >= enough):
        high += 1
    near, shown = np.log(TEMPERATURES[low : high + 1]), slice(low, high + 1)
    cubic = np.polynomial.Polynomial.fit(near, sums[shown], min(3, len(near) - 1), w=1 / RESOLUTION[shown])
    summits = [x.real for x in cubic.deriv().roots() if not x.imag and near[0] <= x.real <= near[-1]]
    summit = max(summits, key=lambda x: float(cubic(x)), default=log(TEMPERATURES[highest]))
    if near[0] <= 0 <= near[-1] and cubic(summit) - cubic(0.0) < _NO_MORE_LIKELY:
        return 1.0
    return float(exp(summit))


def shrink(temperature: float, n: int, global_temperature: float, strength: float) -> float:
    """The subgroup's temperature drawn towards the global one, as if that were `strength` pictures.

    log T = (n log T_s + strength log T_g) / (n + strength); without either, T_g.
    """
    if n + strength == 0:
        return global_temperature
    return exp((n * log(temperature) + strength * log(global_temperature)) / (n + strength))


def subgroup_temperature(
    log_likelihood_sums: NDArray[np.float64], n: int, global_temperature: float, min_examples: int
) -> Temperature:
    """The temperature that serves a subgroup: its own fit, shrunk; the global one where n is too small."""
    if n < min_examples:
        return Temperature(global_temperature, None, n)
    fitted = fit_temperature(log_likelihood_sums, n)
    return Temperature(shrink(fitted, n, global_temperature, STRENGTH), fitted, n)

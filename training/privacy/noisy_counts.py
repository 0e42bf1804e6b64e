"""Differential privacy of counts: discrete Gaussian noise, its (ε, δ), and the account of each client.

Zero-concentrated differential privacy (Bun and Steinke 2016). A count that one patient changes by Δ in the L2
norm, sent with N_Z(0, σ²) in every cell, is Δ² / 2σ²-zCDP, and ρ of several such add up (Canonne, Kamath and
Steinke 2020, Theorem 4). How many patients there are is known, so that the change is of one patient for
another: a picture leaves one cell and comes to another, Δ = √2. (Without the patient it would be 1.) ρ-zCDP
is (ε, δ)-differential privacy with

    δ = min_{α > 1} exp((α − 1)(α ρ − ε)) / (α − 1) · (1 − 1/α)^α  (Corollary 13).

Where t hospitals add noise of variance v each and only the sum is seen, the sum is not quite a discrete
Gaussian of variance t v; its ρ is at most ½ (Δ / √(t v) + τ √d)² with d cells that change and τ = 10 Σ_{k<t}
exp(−2π² v k/(k + 1)) (Kairouz, Liu and Steinke 2021, *The Distributed Discrete Gaussian Mechanism*, Theorem
1), if every one of them keeps its own noise to itself.

Noise is drawn exactly: P(x) ∝ exp(−x² / 2σ²) on the whole numbers (Canonne, Kamath and Steinke 2020,
Algorithms 1 to 3). All arithmetic is of whole numbers, so that no gap between floating-point numbers
discloses what the noise was added to; draws come from the operating system's entropy. Departures: none.

A patient is in one split and one subgroup, so that answers about others cost it nothing. Each part of an
answer costs one unit (`registry.bundle.counting`); how many units a split has follows from the job,
and from them the variance. What would be more is refused. The same request, as a resumed run puts it, gets
the same answer with the same noise, which tells nothing new and costs nothing. A request is the same if its
every byte is, the weights that it is about among them. Accounts and answers are in the client's own store,
written before an answer leaves: first what a request costs each subgroup, a file each, then the answer.
Stopped in between, it is paid for once.
"""

import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, isqrt, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from registry.bundle.counting import GRAIN
from training.algorithms.client import Client, State
from training.data.dataset import Split
from training.errors import MessageError
from training.messages import Tensors

CHANGE = sqrt(2)  # Δ
CELLS = 2  # d: those that change; the others have the same noise in either case
_STEPS = 200
_LEAST, _MOST = 1e-12, 1e4  # of ρ


def delta_of(rho: float, epsilon: float) -> float:
    """δ at ε of ρ-zCDP."""

    def logarithm(log_excess: float) -> float:
        excess = exp(log_excess)  # α − 1
        alpha = 1 + excess
        return excess * (alpha * rho - epsilon) - log_excess - alpha * log1p(1 / excess)

    found = minimize_scalar(
        logarithm, bounds=(log(1e-6), log(1e9)), method="bounded", options={"xatol": 1e-10}
    )
    return min(1.0, exp(min(0.0, found.fun)))  # every α gives a bound, so that rounding errs on the safe side


def epsilon_of(rho: float, delta: float) -> float:
    """ε at δ of ρ-zCDP."""
    return _smallest(
        lambda epsilon: delta_of(rho, epsilon) <= delta, 0.0, rho + 2 * sqrt(rho * log(1 / delta))
    )


@lru_cache(maxsize=64)
def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose δ at ε is no more than this."""
    found = _smallest(lambda log_rho: delta_of(exp(log_rho), epsilon) > delta, log(_LEAST), log(_MOST))
    return exp(found) * (1 - 1e-9)


def rho_of_units(units: int, variance: float, sharers: int = 1) -> float:
    """ρ of so many counts.

    Args:
        units: how many.
        variance: v, of the noise that each of them adds.
        sharers: t, how many add it at least to what is seen.
    """
    share = sqrt(sharers * variance)
    tau = 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, sharers))
    return units * (CHANGE / share + tau * sqrt(CELLS)) ** 2 / 2


@lru_cache(maxsize=64)
def variance_for(units: int, epsilon: float, delta: float, sharers: int = 1) -> Fraction:
    """The least v, in sixteenths, with which so many counts are (ε, δ)-differentially private."""
    allowed = rho_of(epsilon, delta)
    enough = _smallest(
        lambda log_v: rho_of_units(units, exp(log_v), sharers) <= allowed, log(1e-3), log(units / _LEAST)
    )
    return Fraction(ceil(exp(enough) * (1 + 1e-9) * GRAIN), GRAIN)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least value for which something holds that holds from there on, by halving."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


Below = Callable[[int], int]
"""A uniform whole number from 0 to below n; tests put another function in its place."""


def discrete_gaussian(variance: Fraction, size: int, below: Below = secrets.randbelow) -> NDArray[np.int64]:
    """Independent draws of N_Z(0, σ²), `(size,)`.

    Args:
        variance: σ², above 0, exactly.
        size: how many.
        below: where uniform numbers come from.
    """
    return np.array([_gaussian(variance, below) for _ in range(size)], dtype=np.int64)


def _gaussian(variance: Fraction, below: Below) -> int:
    """One draw (Algorithm 3): a discrete Laplace number, kept with exp(−(|Y| − σ²/t)² / 2σ²)."""
    p, q = variance.numerator, variance.denominator
    t = isqrt(p // q) + 1  # ⌊σ⌋ + 1
    while True:
        drawn = _laplace(t, below)
        if _bernoulli_exp((abs(drawn) * t * q - p) ** 2, 2 * p * q * t * t, below):
            return drawn


def _laplace(t: int, below: Below) -> int:
    """P(x) ∝ exp(−|x| / t) (Algorithm 2, with s = 1)."""
    while True:
        rest = below(t)
        if not _bernoulli_exp(rest, t, below):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, below):
            whole += 1
        size, negative = rest + t * whole, below(2)
        if size or not negative:  # 0 has one sign
            return -size if negative else size


def _bernoulli_exp(numerator: int, denominator: int, below: Below) -> bool:
    """Whether with probability exp(−γ), γ = numerator / denominator ≥ 0 (Algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp(1, 1, below):
            return False
        numerator -= denominator
    k = 1
    while below(denominator * k) < numerator:  # Bernoulli(γ / k)
        k += 1
    return k % 2 == 1


ACCOUNT, ANSWER = "privacy/counts", "privacy/answers"  # in the client's store
LAST = 2**31 - 1  # after every entry


def earlier_answer(client: Client, request: str) -> Tensors | None:
    """The answer that this very request got; None where it got none."""
    kept = client.store.load(client.id, f"{ANSWER}/{request}", LAST)
    return None if kept is None else kept.tensors


def spend(
    client: Client,
    request: str,
    split: Split,
    subgroups: Sequence[str],
    units: int,
    planned: int,
    answer: Tensors,
) -> None:
    """Put an answer on the account; saved before it leaves.

    Args:
        client: whose.
        request: its digest (`training.messages`).
        split: of the pictures.
        subgroups: all that the request is about.
        units: what it costs each of them.
        planned: how many units the split has.
        answer: with noise, to be kept.

    Raises:
        MessageError: when it would cost more than is left.
    """
    accounts = {name: {**spent_on(client, split, name), request: float(units)} for name in subgroups}
    for name, entries in accounts.items():
        total = sum(entries.values())
        if total > planned:
            raise MessageError(
                f"{client.id} tells no more of its {split} pictures of {name}: all of the job's answers cost "
                f"{planned} units of noise, {total - units:.0f} are spent and this would cost {units} "
                "(privacy.counts). A run that is begun anew, or goes on with other weights than it had, asks "
                "more than the job promised"
            )
    for name, entries in accounts.items():
        client.store.save(client.id, _account(split, name), len(entries), State({}, entries))
    client.store.save(client.id, f"{ANSWER}/{request}", 1, State(dict(answer)))


def spent_on(client: Client, split: Split, subgroup: str) -> dict[str, float]:
    """The units that each request cost a subgroup so far."""
    kept = client.store.load(client.id, _account(split, subgroup), LAST)
    return {} if kept is None else dict(kept.scalars)


def _account(split: Split, subgroup: str) -> str:
    return f"{ACCOUNT}/{split}/{subgroup}"

"""Distances between two histograms, PSI and Jensen-Shannon divergence, and the PSI that chance alone reaches.

With p_i the share of the test pictures in bin i and q_i the share of the pictures that came in,

    PSI = Σ (q_i − p_i) ln(q_i / p_i),
    JS  = ½ Σ p_i log2(p_i / m_i) + ½ Σ q_i log2(q_i / m_i),  m_i = (p_i + q_i) / 2,

the population stability index, from 0 on, and the Jensen–Shannon divergence, from 0 to 1 bit. If both are
samples of the same, of n and of m pictures, then PSI / (1/n + 1/m) is chi-squared with as many degrees of
freedom as there are bins less one (Yurdakul 2018). Its 95 % point is the PSI that one comparison in twenty
exceeds by chance alone.

Bins next to each other are joined until each holds 5 % of the test pictures, so that with `FEWEST` pictures
five are expected in each; half a picture is added to every bin on both sides, so that an empty one has a
logarithm. Several pictures of one lesion make chance larger than is computed here.

Where the test pictures' histogram is a sum of B that were merged into runs each (see
`registry.bundle.counts.score_bins`), the bins compared end halfway between occupied ones and hold 10 %, so
that runs are small beside them. An end still cuts a run in each of the B, of up to c = 2 smallest cells, and
up to half of it lies on the wrong side: spread evenly from −c/2 to c/2, with a variance of c²/12. With G bins
of m / G test pictures and two ends each, that is c² B G / (6 m) times the variance of their shares by chance,
by which 1/m is enlarged.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FEWEST: Final = 100
"""The fewest pictures, on each side, that are compared."""

_LEAST_SHARE, _LEAST_SHARE_OF_MERGED = 0.05, 0.1
_Z95 = 1.6448536269514722  # the 95 % point of the standard normal distribution


@dataclass(frozen=True)
class Merged:
    """How the histogram of the test pictures was merged.

    Attributes:
        smallest_cell: the fewest patients of a run.
        parts: how many merged histograms were added up.
    """

    smallest_cell: int
    parts: int

    def blur(self, bins: int, pictures: float) -> float:
        """The variance of the shares in so many bins that merging added, in multiples of their own."""
        return (2 * self.smallest_cell) ** 2 * self.parts * bins / (6 * pictures)


@dataclass(frozen=True)
class Distance:
    """How far apart two histograms are.

    Attributes:
        psi: the population stability index.
        jensen_shannon: in bits.
        by_chance: the PSI that chance alone exceeds once in twenty times.
        bins: that were compared.
    """

    psi: float
    jensen_shannon: float
    by_chance: float
    bins: int


def compare(
    expected: NDArray[Any], observed: NDArray[Any], *, join: bool = True, merged: Merged | None = None
) -> Distance | None:
    """The distance of an observed histogram from the expected one, both counts over the same bins.

    Args:
        expected: of the test pictures; need not be whole.
        observed: of the pictures that came in; need not be whole.
        join: whether the bins have an order in which small ones can be joined.
        merged: how the expected histogram was merged; None where it was not.

    Returns:
        None where either side has fewer than `FEWEST` pictures, or all lies in one bin.
    """
    n, m = float(np.sum(observed)), float(np.sum(expected))
    if min(n, m) < FEWEST:
        return None
    starts = _joined(np.asarray(expected, dtype=np.float64), merged) if join else np.arange(len(expected))
    if len(starts) < 2:
        return None
    p = _shares(np.add.reduceat(np.asarray(expected, dtype=np.float64), starts))
    q = _shares(np.add.reduceat(np.asarray(observed, dtype=np.float64), starts))
    between = (p + q) / 2
    blur = merged.blur(len(starts), m) if merged and join else 0.0
    return Distance(
        psi=float(np.sum((q - p) * np.log(q / p))),
        jensen_shannon=float(np.sum(p * np.log2(p / between) + q * np.log2(q / between)) / 2),
        by_chance=chi_squared_95(len(starts) - 1) * (1 / n + (1 + blur) / m),
        bins=len(starts),
    )


def chi_squared_95(freedom: int) -> float:
    """The 95 % point of the chi-squared distribution; from three degrees of freedom on to within 1 %.

    One is the square of a normal variable, two are exponential; for more, Wilson and Hilferty's cube root.
    """
    if freedom == 1:
        return 1.959963984540054**2
    if freedom == 2:
        return -2 * log(0.05)
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + _Z95 * sqrt(spread)) ** 3)


def _joined(expected: NDArray[np.float64], merged: Merged | None) -> NDArray[np.int64]:
    """Where each joined bin begins: when the one before holds enough, while all that follows does, too."""
    places = np.arange(len(expected)) if merged is None else _halfway(expected)
    counts = np.add.reduceat(expected, places)
    least = (_LEAST_SHARE if merged is None else _LEAST_SHARE_OF_MERGED) * counts.sum()
    starts, held = [0], 0.0
    for position, count in enumerate(counts):
        if held >= least and counts[position:].sum() >= least:
            starts.append(position)
            held = 0.0
        held += count
    return places[np.array(starts, dtype=np.int64)]


def _halfway(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first bin, and those that begin halfway between two occupied ones next to each other."""
    occupied = np.flatnonzero(expected)
    return np.concatenate([[0], (occupied[:-1] + occupied[1:] + 1) // 2])


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = (counts + 0.5) / (counts + 0.5).sum()
    return shares

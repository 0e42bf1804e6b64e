"""Two services asked in turn, and how much longer one of them takes: a ratio with its interval."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import numpy as np

WARM = 20
"""Requests to each before any is timed."""


@dataclass(frozen=True)
class InTurn:
    """What two services took for the same requests.

    Attributes:
        one: its median, ms.
        other: the other's.
        ratio: of the medians, the other's by the first's.
        low: where its 95 % interval begins, from 2,000 bootstrap samples of pairs.
        high: where it ends.
    """

    one: float
    other: float
    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def in_turn(
    one: str,
    other: str,
    pairs: int,
    content: Callable[[int], bytes],
    ask: Callable[[httpx.Client, bytes], object],
) -> InTurn:
    """Asks two services so many pairs of requests, each of a pair first in one half of them.

    Args:
        one: an address.
        other: that of the service whose time is told by the first's.
        pairs: how many.
        content: of the request of each pair.
        ask: asks one.
    """
    taken = np.zeros((pairs, 2))
    with (
        httpx.Client(base_url=one, timeout=120, trust_env=False) as first,
        httpx.Client(base_url=other, timeout=120, trust_env=False) as second,
    ):
        for client in (first, second):
            for seed in range(WARM):
                ask(client, content(seed))
        for pair in range(pairs):
            picture = content(pair)
            for which in (0, 1) if pair % 2 else (1, 0):
                began = time.perf_counter()
                ask((first, second)[which], picture)
                taken[pair, which] = time.perf_counter() - began
    drawn = np.random.default_rng(0).integers(0, pairs, (2000, pairs))
    medians = np.median(taken[drawn], axis=1)
    low, high = np.quantile(medians[:, 1] / medians[:, 0], (0.025, 0.975))
    without, beside = (float(value) for value in np.median(taken, axis=0) * 1000)
    return InTurn(without, beside, beside / without, float(low), float(high))

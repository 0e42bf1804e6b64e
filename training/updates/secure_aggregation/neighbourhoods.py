"""Neighbourhoods: with whom a client shares its secrets and its masks, where all with all would be too many.

Bell et al. 2020 ("Secure single-server aggregation with (poly)logarithmic overhead"): among n clients each
needs O(log n) others and not n. Here a client u draws k holders of its secrets by itself, at random, once it
has everybody's keys; t of them give a secret. It masks with its holders, and with those whose holder it is.

Let C = ⌈γ n⌉ clients help a dishonest coordinator, and c of them be among u's holders. Whichever clients
leave, and whichever the coordinator says have left after it has seen everybody's holders, while c ≤ c_max:

- Neither secret of u comes together from helpers alone: c_max < t.
- u has made masks with t or more of its holders, or refuses; its self mask is taken off with shares of t or
  more that are still there. 2 t − k of them are both, and 2 t − k − c_max are honest: their masks with u stay
  on. So whatever is unmasked is the sum of more than 2 t − k − c_max honest clients, and with

      2 t − k − c_max ≥ fewest − 1                                                                        (1)

  of `fewest` or more.

k is the least with (1) for which

    n Pr[c > c_max] ≤ 2^−40,  c ~ Hypergeometric(n − 1, C, k)      no neighbourhood has too many helpers  (2)
    n Pr[d > k − t] ≤ 2^−30,  d ~ Hypergeometric(n − 1, D, k)      none is lost with D = ⌈δ n⌉ that leave (3)

in whole numbers, so that all sides find the same (σ = 40 and η = 30 in the paper). If (3) fails, nothing is
unmasked and the round is asked again. Both need that one list of survivors is confirmed, which more than
(n + C)/2 clients do (`SecureAggregationConfig.threshold`).

Departures: the paper's graph is regular and the coordinator's (its Algorithm 2), or drawn by clients and
committed to beforehand (its Algorithm 4). Here only who must trust them draws the holders; where the
coordinator leaves one's edges out, masks stay on and the sum is lost.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, lgamma, log

SECURITY, CORRECTNESS = 40, 30  # σ and η: what goes wrong with 2^−σ and 2^−η at most
LN2 = log(2)


@dataclass(frozen=True)
class Neighbourhood:
    """How many holders each client has.

    Attributes:
        holders: k, of how many each secret is shared among.
        threshold: t, how many of them give it.
        helpers: c_max, how many of them may help a dishonest coordinator.
    """

    holders: int
    threshold: int
    helpers: int


def part_of(share: float, clients: int) -> int:
    """How many a share of so many clients is, rounded up; 0.1 of 30 are 3."""
    return ceil(round(share * clients, 9))


@lru_cache(maxsize=64)
def neighbourhood(clients: int, corrupted: float, leaving: float, fewest: int) -> Neighbourhood | None:
    """The smallest neighbourhoods that keep (1) to (3); None where everybody would be everybody's holder.

    Args:
        clients: n.
        corrupted: γ, the share of clients that may help a dishonest coordinator.
        leaving: δ, the share of clients that may leave on the way.
        fewest: of how many honest clients a sum is at least.
    """
    helpers, gone = part_of(corrupted, clients), part_of(leaving, clients)
    most = 0
    for holders in range(1, clients - 1):
        while not rare(clients, helpers, holders, most, SECURITY):
            most += 1
        threshold = (holders + most + fewest) // 2  # (1): half of k + c_max + fewest − 1, rounded up
        spare = holders - threshold
        if threshold > most and spare >= 0 and rare(clients, gone, holders, spare, CORRECTNESS):
            return Neighbourhood(holders, threshold, most)
    return None


def rare(clients: int, marked: int, drawn: int, most: int, bits: int) -> bool:
    """Whether n Pr[X > most] ≤ 2^−bits for X ~ Hypergeometric(n − 1, marked, drawn)."""
    others = clients - 1
    ways = sum(
        comb(marked, found) * comb(others - marked, drawn - found)
        for found in range(most + 1, min(marked, drawn) + 1)
    )
    return clients * ways << bits <= comb(others, drawn)


def log2_in_parts(clients: int, there: int, holders: int) -> float:
    """log2 of a bound on the probability that those that are there fall into parts without masks in common.

    For clients that leave whatever the holders are. For some S of the h that are there, nobody in S has drawn
    one of the others, nor they one of S: Σ_{s ≤ h/2} C(h, s) P(h − s)^s P(s)^{h−s}, where P(a) = C(n − 1 − a,
    k) / C(n − 1, k) is the probability that k holders avoid a clients.
    """
    terms = []
    for inside in range(1, there // 2 + 1):
        outside = there - inside
        if clients - 1 - outside >= holders:
            terms.append(
                log2_comb(there, inside)
                + inside * log2_avoids(clients, holders, outside)
                + outside * log2_avoids(clients, holders, inside)
            )
    return max(terms) + log(len(terms)) / LN2 if terms else -float("inf")


def log2_avoids(clients: int, holders: int, avoided: int) -> float:
    """log2 P(avoided)."""
    return log2_comb(clients - 1 - avoided, holders) - log2_comb(clients - 1, holders)


def log2_comb(of: int, chosen: int) -> float:
    """log2 of a binomial coefficient."""
    return (lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)) / LN2

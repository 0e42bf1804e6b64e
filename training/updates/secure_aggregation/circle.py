"""Who may hold a client's shares: everybody, or a few that it draws itself."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from training.data.dataset import SERVER
from training.updates.secure_aggregation.neighbourhoods import neighbourhood
from training.updates.settings import SecureAggregationConfig


@dataclass(frozen=True)
class Circle:
    """How the secrets of the clients of one sum are shared.

    Attributes:
        sparse: whether each draws its holders; else everybody holds a share of everybody's, its own too.
        holders: how many hold a client's shares.
        threshold: how many of them give a secret.
    """

    sparse: bool
    holders: int
    threshold: int

    def draw(self, clients: Sequence[str], me: int) -> list[int]:
        """The places of the holders of the client at place `me`, rising.

        With numbers of the operating system: nobody else may have a say in them. The coordinator's own client
        holds nobody's, since it keeps nothing from it.
        """
        if not self.sparse:
            return list(range(len(clients)))
        others = [place for place, name in enumerate(clients) if name != SERVER and place != me]
        return sorted(secrets.SystemRandom().sample(others, self.holders))

    def fits(self, holders: Sequence[int], clients: Sequence[str], me: int) -> bool:
        """Whether a client may have drawn these."""
        if not self.sparse:
            return list(holders) == list(range(len(clients)))
        there = all(0 <= place < len(clients) and clients[place] != SERVER for place in holders)
        rising = all(one < other for one, other in pairwise(holders))
        return there and rising and me not in holders and len(holders) == self.holders


def circle_of(clients: Sequence[str], config: SecureAggregationConfig) -> Circle:
    """How these clients share their secrets; only hospitals are drawn, and count."""
    hospitals = sum(name != SERVER for name in clients)
    if (sparse := config.sparse_among(hospitals)) is not None:
        found = neighbourhood(hospitals, sparse.corrupted, sparse.leaving, config.fewest)
        if found is not None:
            return Circle(True, found.holders, found.threshold)
    return Circle(False, len(clients), config.threshold(len(clients)))

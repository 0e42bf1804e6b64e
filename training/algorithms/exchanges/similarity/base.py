"""The peer-similarity interface: how the server measures which clients resemble each other."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.exchanges.server_context import ServerContext
from training.config import FrozenConfig
from training.messages.message import Tensors


@dataclass(frozen=True)
class Candidate:
    """Another client, and how much it resembles the one in question; None where that is not measured."""

    client: str
    similarity: float | None


class PeerSimilarity(FrozenConfig, ABC):
    """By what peers are ranked. The server keeps a profile of each client's newest upload."""

    name: str

    @abstractmethod
    def profile(self, weights: Tensors, accuracy: float | None, server_context: ServerContext) -> Tensor:
        """The vector of float64 that is kept of an upload to compare it by.

        Args:
            weights: what was uploaded.
            accuracy: on the server's validation pictures, where it was measured.
            server_context: what it may call at the coordinator.
        """

    @abstractmethod
    def rank(
        self, client: str, profiles: Mapping[str, Tensor], random: np.random.Generator
    ) -> Sequence[Candidate]:
        """The other clients, the most similar first.

        Args:
            client: in question; it has a profile.
            profiles: of all clients that ever took part.
            random: draws for this client and round.
        """


def ranked(client: str, names: Sequence[str], similarities: NDArray[np.float64]) -> Sequence[Candidate]:
    """The others by `similarities` `(names,)` to `client`, the highest first, ties by name."""
    others = [
        Candidate(name, float(value))
        for name, value in zip(names, similarities, strict=True)
        if name != client
    ]
    return sorted(others, key=lambda other: (-(other.similarity or 0.0), other.client))

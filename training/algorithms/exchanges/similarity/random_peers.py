"""Random peers: the baseline of every similarity (FedPerl, section 3.3, "Random peers")."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from training.algorithms.exchanges.server_context import ServerContext
from training.algorithms.exchanges.similarity.base import Candidate, PeerSimilarity
from training.messages.message import Tensors


class RandomPeers(PeerSimilarity):
    """Every order of the others is as likely, in every round anew."""

    name: Literal["random"] = "random"

    def profile(self, weights: Tensors, accuracy: float | None, server_context: ServerContext) -> Tensor:
        """Nothing, `(0,)`."""
        return torch.empty(0, dtype=torch.float64)

    def rank(
        self, client: str, profiles: Mapping[str, Tensor], random: np.random.Generator
    ) -> Sequence[Candidate]:
        """In a drawn order."""
        others = [name for name in sorted(profiles) if name != client]
        return [Candidate(others[place], None) for place in random.permutation(len(others))]

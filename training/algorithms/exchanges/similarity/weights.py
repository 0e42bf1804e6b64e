"""Peers by their weights: clients whose parameters have similar means and deviations (FedPerl, Eq. 4).

The feature vector of client m is F_m = {(μ_0, σ_0), …, (μ_l, σ_l)}, the mean and the standard deviation of
each parameter tensor, and

    ω_{mk} = F_mᵀ F_k / (‖F_m‖ · ‖F_k‖).

Departures: as in the authors' code each feature is first scaled to [0, 1] across clients; without it all
cosines crowd near 1. A feature that is the same for all scales to 1. The deviation is that of a population,
0 for a tensor of one element.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.exchanges.server_context import ServerContext
from training.algorithms.exchanges.similarity.base import Candidate, PeerSimilarity, ranked
from training.algorithms.sync.base import BUFFERS
from training.messages.message import Tensors


class WeightSimilarity(PeerSimilarity):
    """Cosine similarity of the weights' moments.

    Attributes:
        scaled: scale each feature to [0, 1] across clients; False is the paper's plain text.
        statistics: normalisation statistics are features too, as in the authors' code.
        accuracy: the accuracy on the server's validation pictures is a feature too, as in the authors' code.
    """

    name: Literal["weights"] = "weights"
    scaled: bool = True
    statistics: bool = False
    accuracy: bool = False

    def profile(self, weights: Tensors, accuracy: float | None, server_context: ServerContext) -> Tensor:
        """F_m `(features,)`."""
        features = moments(weights, statistics=self.statistics)
        if not self.accuracy:
            return features
        assert accuracy is not None, "uploads are judged where their accuracy is a feature"
        return torch.cat([features, torch.tensor([accuracy], dtype=torch.float64)])

    def rank(
        self, client: str, profiles: Mapping[str, Tensor], random: np.random.Generator
    ) -> Sequence[Candidate]:
        """By ω, the highest first."""
        names, matrix = self.matrix(profiles)
        return ranked(client, names, matrix[names.index(client)])

    def matrix(self, profiles: Mapping[str, Tensor]) -> tuple[list[str], NDArray[np.float64]]:
        """The clients by name, and W `(clients, clients)`."""
        names = sorted(profiles)
        features = np.stack([profiles[name].numpy() for name in names])
        return names, cosines(scaled(features) if self.scaled else features)


def moments(weights: Tensors, *, statistics: bool) -> Tensor:
    """(μ, σ) of each parameter tensor in order of their names, `(2 tensors,)` float64."""
    names = sorted(name for name in weights if statistics or not name.endswith(BUFFERS))
    values = [weights[name].double() for name in names]
    return torch.stack([moment for value in values for moment in (value.mean(), value.std(correction=0))])


def scaled(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features `(clients, features)`, each from 0 at its lowest client to 1 at its highest."""
    low, high = features.min(axis=0), features.max(axis=0)
    apart = high > low
    within: NDArray[np.float64] = np.where(apart, (features - low) / np.where(apart, high - low, 1.0), 1.0)
    return within


def cosines(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each two rows, `(clients, clients)`; that with a row of zeros is 0."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    unit = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0)
    similarity: NDArray[np.float64] = unit @ unit.T
    return similarity

"""Peer similarity: how the server ranks a client's peers. The table of what a job may name as `choice`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from registry.bundle.plugins import PartTable
from training.algorithms.exchanges.base import ServerContext
from training.algorithms.sync import BUFFERS
from training.config import FrozenConfig
from training.messages import Tensors


@dataclass(frozen=True)
class Candidate:
    """Another client, and how much it resembles the one in request; None where that is not measured."""

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
            client: in request; it has a profile.
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


class PredictionSimilarity(PeerSimilarity):
    """Peers by functional similarity: models that predict alike on noise (FedMatch, Jeong et al. 2021, 4.1).

    Every uploaded model is asked about the same made-up pictures, and two models are the nearer the smaller
    the Euclidean distance between their probabilities; the similarity is minus that distance.

    Departures: FedMatch searches a k-d tree for what is here compared directly; what it finds is the same. It
    compares what the last layer gives before the softmax; probabilities are what is predicted, and a number
    added to all of a model's outputs changes none of them.

    Attributes:
        pictures: how many are asked about.
    """

    name: Literal["predictions"] = "predictions"
    pictures: int = Field(1, ge=1)

    def profile(self, weights: Tensors, accuracy: float | None, server_context: ServerContext) -> Tensor:
        """The answers `(pictures classes,)`."""
        return server_context.predict_noise(weights, self.pictures).flatten()

    def rank(
        self, client: str, profiles: Mapping[str, Tensor], random: np.random.Generator
    ) -> Sequence[Candidate]:
        """The nearest first."""
        names = sorted(profiles)
        answers = np.stack([profiles[name].numpy() for name in names])
        distances = np.linalg.norm(answers - answers[names.index(client)], axis=1)
        return ranked(client, names, -distances)


class RandomPeers(PeerSimilarity):
    """Random peers: the baseline of every similarity (FedPerl, section 3.3, "Random peers")."""

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


class WeightSimilarity(PeerSimilarity):
    """Peers by their weights: clients whose parameters have similar means and deviations (FedPerl, Eq. 4).

    The feature vector of client m is F_m = {(μ_0, σ_0), …, (μ_l, σ_l)}, the mean and the standard deviation
    of each parameter tensor, and

        ω_{mk} = F_mᵀ F_k / (‖F_m‖ · ‖F_k‖).

    Departures: as in the authors' code each feature is first scaled to [0, 1] across clients; without it all
    cosines crowd near 1. A feature that is the same for all scales to 1. The deviation is that of a
    population, 0 for a tensor of one element.

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


SIMILARITIES: PartTable[PeerSimilarity] = PartTable(
    "choice", WeightSimilarity, PredictionSimilarity, RandomPeers, base=PeerSimilarity
)

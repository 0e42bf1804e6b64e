"""Peers by functional similarity: models that predict alike on noise (FedMatch, Jeong et al. 2021, 4.1).

Every uploaded model is asked about the same made-up pictures, and two models are the nearer the smaller the
Euclidean distance between their probabilities; the similarity is minus that distance.

Departures: FedMatch searches a k-d tree for what is here compared directly; what it finds is the same. It
compares what the last layer gives before the softmax; probabilities are what is predicted, and a number
added to all of a model's outputs changes none of them.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from training.algorithms.exchanges.server_context import ServerContext
from training.algorithms.exchanges.similarity.base import Candidate, PeerSimilarity, ranked
from training.messages.message import Tensors


class PredictionSimilarity(PeerSimilarity):
    """The distance between answers to pictures of noise.

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

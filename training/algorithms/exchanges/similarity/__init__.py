"""Peer similarity: how the server ranks a client's peers. The table of what a job may name as `choice`.

- `base`: the interface
- `weights`, `predictions`, `random_peers`: one measure each
"""

from registry.bundle.plugins import PartTable
from training.algorithms.exchanges.similarity.base import Candidate, PeerSimilarity
from training.algorithms.exchanges.similarity.predictions import PredictionSimilarity
from training.algorithms.exchanges.similarity.random_peers import RandomPeers
from training.algorithms.exchanges.similarity.weights import WeightSimilarity

SIMILARITIES: PartTable[PeerSimilarity] = PartTable(
    "choice", WeightSimilarity, PredictionSimilarity, RandomPeers, base=PeerSimilarity
)

__all__ = [
    "SIMILARITIES",
    "RandomPeers",
    "PredictionSimilarity",
    "WeightSimilarity",
    "Candidate",
    "PeerSimilarity",
]

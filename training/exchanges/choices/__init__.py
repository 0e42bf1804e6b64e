"""Choices: by what the server ranks a client's peers. The table of what a job may name."""

from training.exchanges.choices.base import Candidate, Choice
from training.exchanges.choices.chance import ByChance
from training.exchanges.choices.predictions import ByPredictions
from training.exchanges.choices.weights import ByWeights
from training.parts import PartTable

CHOICES: PartTable[Choice] = PartTable("choice", ByWeights, ByPredictions, ByChance)

__all__ = ["CHOICES", "ByChance", "ByPredictions", "ByWeights", "Candidate", "Choice"]

"""Strategies: how a subgroup's own model comes from the global one. The table of what a job may name."""

from personalization.strategies.base import Strategy
from personalization.strategies.finetune import FineTune
from training.parts import PartTable

STRATEGIES: PartTable[Strategy] = PartTable("strategy", FineTune, plural="strategies")

__all__ = ["STRATEGIES", "FineTune", "Strategy"]

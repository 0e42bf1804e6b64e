"""Personalization strategies: how a personal model comes from the global one. The table of names for jobs."""

from personalization.strategies.base import FineTune, NoTraining, Shrink, Strategy
from personalization.strategies.ditto import Ditto
from personalization.strategies.parts import Head, LowRank, Norm
from registry.bundle.plugins import PartTable

STRATEGIES: PartTable[Strategy] = PartTable(
    "strategy", NoTraining, FineTune, Head, Norm, LowRank, Ditto, Shrink, base=Strategy, plural="strategies"
)

__all__ = ["STRATEGIES", "Ditto", "FineTune", "Head", "LowRank", "NoTraining", "Norm", "Shrink", "Strategy"]

"""Personalization strategies: how a personal model comes from the global one. The table of names for jobs."""

from personalization.strategies.adapters import LowRank
from personalization.strategies.base import Strategy
from personalization.strategies.ditto import Ditto
from personalization.strategies.finetune import FineTune
from personalization.strategies.head import Head
from personalization.strategies.norm import Norm
from personalization.strategies.nothing import NoTraining
from personalization.strategies.shrink import Shrink
from registry.bundle.plugins import PartTable

STRATEGIES: PartTable[Strategy] = PartTable(
    "strategy", NoTraining, FineTune, Head, Norm, LowRank, Ditto, Shrink, base=Strategy, plural="strategies"
)

__all__ = ["STRATEGIES", "Ditto", "FineTune", "Head", "LowRank", "NoTraining", "Norm", "Shrink", "Strategy"]

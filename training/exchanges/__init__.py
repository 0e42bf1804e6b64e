"""Exchange: what travels besides weights. The table of what a job may name."""

from training.exchanges.base import Exchange
from training.exchanges.features import SharedFeatures
from training.exchanges.nothing import NoExchange
from training.parts import PartTable

EXCHANGES: PartTable[Exchange] = PartTable("exchange", NoExchange, SharedFeatures)

__all__ = ["EXCHANGES", "Exchange", "NoExchange", "SharedFeatures"]

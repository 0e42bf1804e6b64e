"""Exchange: what travels besides weights. The table of what a job may name."""

from training.exchanges.base import Exchange
from training.exchanges.features import SharedFeatures
from training.exchanges.nothing import NoExchange
from training.exchanges.peers import Peers
from training.exchanges.relations import SharedRelations
from training.parts import PartTable

EXCHANGES: PartTable[Exchange] = PartTable("exchange", NoExchange, SharedFeatures, Peers, SharedRelations)

__all__ = ["EXCHANGES", "Exchange", "NoExchange", "Peers", "SharedFeatures", "SharedRelations"]

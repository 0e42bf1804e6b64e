"""Exchanges: what travels besides weights. The table of what a job may name.

- `base`: the interface, and what an exchange may call at the coordinator
- `features`, `relations`, `peers`: one method each
- `similarity`: how `peers` ranks the peers of a client
"""

from registry.bundle.plugins import PartTable
from training.algorithms.exchanges.base import Exchange, NoExchange
from training.algorithms.exchanges.features import SharedFeatures
from training.algorithms.exchanges.peers import Peers
from training.algorithms.exchanges.relations import SharedRelations

EXCHANGES: PartTable[Exchange] = PartTable(
    "exchange", NoExchange, SharedFeatures, Peers, SharedRelations, base=Exchange
)

__all__ = ["EXCHANGES", "Exchange", "NoExchange", "Peers", "SharedFeatures", "SharedRelations"]

"""Syncs: which parameters travel. The table of what a job may name.

- `base`: the interface, and the syncs `all`, `except` and `none`
- `ema`: FedEMA
"""

from registry.bundle.plugins import PartTable
from training.algorithms.sync.base import BUFFERS, Notes, Sync, SyncAll, SyncExcept, SyncNone
from training.algorithms.sync.ema import SyncEMA

SYNCS: PartTable[Sync] = PartTable("sync", SyncAll, SyncExcept, SyncNone, SyncEMA, base=Sync)

__all__ = ["BUFFERS", "SYNCS", "Notes", "Sync", "SyncAll", "SyncEMA", "SyncExcept", "SyncNone"]

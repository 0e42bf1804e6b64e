"""Syncs: which parameters travel. The table of what a job may name."""

from training.parts import PartTable
from training.sync.base import BUFFERS, Notes, Sync
from training.sync.ema import SyncEMA
from training.sync.plain import SyncAll, SyncExcept, SyncNone

SYNCS: PartTable[Sync] = PartTable("sync", SyncAll, SyncExcept, SyncNone, SyncEMA)

__all__ = ["BUFFERS", "SYNCS", "Notes", "Sync", "SyncAll", "SyncEMA", "SyncExcept", "SyncNone"]

"""Which part of the model learns in a stage. The table of what a job may name.

- `base`: the interface
- `whole`: all of it
- `head`: what is behind the encoder, on features that are made once
"""

from registry.bundle.plugins import PartTable
from training.algorithms.trains.base import Trains
from training.algorithms.trains.head import TrainsHead
from training.algorithms.trains.whole import TrainsAll

TRAINS: PartTable[Trains] = PartTable("trained part", TrainsAll, TrainsHead, base=Trains)

__all__ = ["TRAINS", "Trains", "TrainsAll", "TrainsHead"]

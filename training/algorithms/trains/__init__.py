"""Which part of the model learns in a stage. The table of what a job may name.

- `base`: the interface
- `whole`: all of it
- `head`: what is behind the encoder, on features that are made once
- `last`: that and the last blocks of the encoder
- `lora`: that and low-rank adapters of the encoder
- `part`: training a part of a model, as strategies of personalization do, too
"""

from registry.bundle.plugins import PartTable
from training.algorithms.trains.base import Trains
from training.algorithms.trains.head import TrainsHead
from training.algorithms.trains.last import TrainsLast
from training.algorithms.trains.lora import TrainsLora
from training.algorithms.trains.whole import TrainsAll

TRAINS: PartTable[Trains] = PartTable(
    "trained part", TrainsAll, TrainsHead, TrainsLast, TrainsLora, base=Trains, plural="trains"
)

__all__ = ["TRAINS", "Trains", "TrainsAll", "TrainsHead", "TrainsLast", "TrainsLora"]

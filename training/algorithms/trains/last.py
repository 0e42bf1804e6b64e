"""The last blocks of the encoder learn with the head; what is before them stays as it is.

Layers near the pictures see what all pictures have, the last ones what their task was (Yosinski et al. 2014).
Normalisation statistics do not move, also where what follows them learns: a hospital with few pictures would
shift them.
"""

from typing import Literal

from pydantic import Field

from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync
from training.algorithms.trains.base import Trains
from training.algorithms.trains.part import OverPart, Part, SyncPart
from training.errors import JobError
from training.models import Classifier
from training.models.layers import encoder_layers


class TrainsLast(Trains, Part):
    """The head and the last blocks.

    Attributes:
        blocks: how many, of timm's layers of the encoder.
    """

    name: Literal["last"] = "last"
    blocks: int = Field(2, ge=1)

    def moves(self, network: Classifier) -> frozenset[str]:
        """Head and last blocks.

        Raises:
            JobError: when the encoder has no more blocks than that: all of it would learn.
        """
        head = set(network.head_names)
        layers = {name: layer for name, layer in encoder_layers(network).items() if name not in head}
        kinds = sorted(set(layers.values()))
        if self.blocks >= len(kinds):
            raise JobError(
                f"trains.blocks is {self.blocks}, and this encoder has {len(kinds)} layers; name fewer, or "
                "set trains: {name: all}"
            )
        learning = set(kinds[-self.blocks :])
        return frozenset(head | {name for name, layer in layers.items() if layer in learning})

    def objective(self, objective: Objective) -> Objective:
        """The objective over the part."""
        return OverPart.of(objective, part=self)

    def sync(self, sync: Sync) -> Sync:
        """The part travels."""
        return SyncPart(part=self)

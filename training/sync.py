"""Sync: which parameters travel, and how a client merges what arrives with what it kept.

A `Sync` sorts the names of a model's state into those that travel and those that stay. What stays is
kept in the client's own store from round to round; when `average_at_end` is set it is uploaded and
averaged exactly once, after the last round, so that one global model exists.
"""

from abc import ABC, abstractmethod
from typing import Literal

from torch import Tensor

from training.config import FrozenConfig
from training.messages import Tensors
from training.models.classifier import Classifier
from training.models.groups import float_state, group_names
from training.parts import PartTable

# Statistics that a layer gathers rather than learns.
BUFFERS = ("running_mean", "running_var")


class Sync(FrozenConfig, ABC):
    """What every sync can say.

    Attributes:
        buffers: whether normalisation statistics are averaged like weights or stay at their client.
        average_at_end: whether what stayed is averaged once after the last round.
    """

    name: str
    buffers: Literal["average", "local"] = "average"
    average_at_end: bool = True

    @abstractmethod
    def stays(self, model: Classifier) -> frozenset[str]:
        """The state names that never travel during the rounds, normalisation statistics aside."""

    def travels(self, model: Classifier) -> tuple[str, ...]:
        """The state names that travel, in the model's own order."""
        kept = self.stays(model)
        if self.buffers == "local":
            kept |= {name for name in float_state(model) if name.endswith(BUFFERS)}
        return tuple(name for name in float_state(model) if name not in kept)

    def merge(self, received: Tensors, kept: Tensors) -> dict[str, Tensor]:
        """The state a client starts its round from: what arrived, and what it kept of its own."""
        return {**received, **kept}


class SyncAll(Sync):
    """Everything travels."""

    name: Literal["all"] = "all"

    def stays(self, model: Classifier) -> frozenset[str]:
        """Nothing stays."""
        return frozenset()


class SyncExcept(Sync):
    """Everything travels but the named groups of parameters, e.g. `norm` as in FedBN (Li et al. 2021)."""

    name: Literal["except"] = "except"
    groups: tuple[str, ...]

    def stays(self, model: Classifier) -> frozenset[str]:
        """The names in the groups that stay."""
        return frozenset().union(*(group_names(model, group) for group in self.groups))


SYNCS: PartTable[Sync] = PartTable("sync", SyncAll, SyncExcept)

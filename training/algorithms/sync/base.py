"""The sync interface: which parameters travel, and how a client merges what arrives with what it kept.

A `Sync` sorts the names of a model's state into those that travel and those that stay. What stays is
kept in the client's own store from round to round; when `average_at_end` is set it is uploaded and
averaged exactly once, after the last round, so that one global model exists. A sync may keep more than
what stays, and notes of its own, to merge by in the client's next round.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from training.config import FrozenConfig
from training.messages.message import Tensors
from training.models.classifier import Classifier
from training.models.groups import float_state, group_names

# Statistics that a layer gathers rather than learns.
BUFFERS = ("running_mean", "running_var")

# Numbers that a client keeps for its next merge, by name.
Notes = Mapping[str, float]


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

    def keeps(self, model: Classifier) -> tuple[str, ...]:
        """The state names that a client keeps after a round, in the model's own order: those that stay."""
        travels = set(self.travels(model))
        return tuple(name for name in float_state(model) if name not in travels)

    def merge(self, received: Tensors, kept: Tensors, notes: Notes) -> dict[str, Tensor]:
        """The state a client starts its round from: what arrived, and what it kept of its own.

        Args:
            received: what arrived.
            kept: what the client kept after its last round; nothing before its first.
            notes: what it noted then.
        """
        return {**received, **kept}

    def watches(self, model: Classifier) -> tuple[str, ...]:
        """The state names whose change over a client's round is wanted for its notes."""
        return ()

    def note(self, before: Tensors, after: Tensors, notes: Notes) -> Notes:
        """What to note for the next merge, from the watched tensors before and after local training."""
        return {}


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


class SyncNone(Sync):
    """Nothing travels: every client trains a model of its own ("Local CL", Wu et al. 2022, section V-A)."""

    name: Literal["none"] = "none"

    def stays(self, model: Classifier) -> frozenset[str]:
        """Everything stays."""
        return frozenset(float_state(model))

"""Syncs: which parameters travel, and how a client merges what arrives with what it kept.

A `Sync` sorts the names of a model's state into those that travel and those that stay. What stays is
kept in the client's own store from round to round; when `average_at_end` is set it is uploaded and
averaged exactly once, after the last round, so that one global model exists. A sync may keep more than
what stays, and notes of its own, to merge by in the client's next round.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from statistics import fmean
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from registry.bundle.plugins import PartTable
from training.config import FrozenConfig
from training.errors import JobError
from training.messages import Tensors
from training.models.classifier import Classifier, float_state, group_names

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
    def local(self, model: Classifier) -> frozenset[str]:
        """The state names that never travel during the rounds, normalisation statistics aside."""

    def shared(self, model: Classifier) -> tuple[str, ...]:
        """The state names that travel, in the model's own order."""
        kept = self.local(model)
        if self.buffers == "local":
            kept |= {name for name in float_state(model) if name.endswith(BUFFERS)}
        return tuple(name for name in float_state(model) if name not in kept)

    def keeps(self, model: Classifier) -> tuple[str, ...]:
        """The state names that a client keeps after a round, in the model's own order: those that stay."""
        shared = set(self.shared(model))
        return tuple(name for name in float_state(model) if name not in shared)

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

    def local(self, model: Classifier) -> frozenset[str]:
        """Nothing stays."""
        return frozenset()


class SyncExcept(Sync):
    """Everything travels but the named groups of parameters, e.g. `norm` as in FedBN (Li et al. 2021)."""

    name: Literal["except"] = "except"
    groups: tuple[str, ...]

    def local(self, model: Classifier) -> frozenset[str]:
        """The names in the groups that stay."""
        return frozenset().union(*(group_names(model, group) for group in self.groups))


class SyncNone(Sync):
    """Nothing travels: every client trains a model of its own ("Local CL", Wu et al. 2022, section V-A)."""

    name: Literal["none"] = "none"

    def local(self, model: Classifier) -> frozenset[str]:
        """Everything stays."""
        return frozenset(float_state(model))


DIVERGENCE, SCALE = "divergence", "scale"  # d and λ in a client's notes
CONVOLUTION = 4  # dimensions of a convolution's weights


class SyncEMA(Sync):
    """FedEMA: a client averages what arrives with its own, the more the less it moved (Zhuang et al. 2022).

    Everything travels, and a client keeps its own of it too. From its second participation on it starts from

        W_k ← μ W_k + (1 − μ) W_g,    μ = min(λ d, 1),    λ = τ / d at the client's first

    for W_k what it had after its last local training, W_g what arrives, and d the divergence: the mean over
    the encoder's convolution tensors of the L2 norm of their change in the client's last local training, as
    in the authors' code. λ stays what it was after the client's first, so that μ is τ the second time. The
    first time a client takes W_g, from which its momentum network starts too. With the objective `byol` and
    `momentum_encoder: keep` this is FedEMA.

    A client whose convolutions did not change (d = 0) takes W_g; its λ is fixed at the first d above 0.

    Departures: all that travels is averaged so, normalisation statistics and the objective's heads among it;
    the paper speaks of encoder and predictor. A client that missed rounds averages what arrives with what it
    had then, as the equation is written; the authors' code has this and, for clients that are drawn, a second
    way, in which such a client takes W_g for both of its networks.

    Attributes:
        tau: τ, what μ is the second time.
    """

    name: Literal["ema"] = "ema"
    tau: float = Field(0.7, gt=0, le=1)

    def local(self, model: Classifier) -> frozenset[str]:
        """Nothing stays.

        Raises:
            JobError: when the model has no convolution to measure.
        """
        # The server asks this before the first round, a client asks what to watch within one.
        self.watches(model)
        return frozenset()

    def keeps(self, model: Classifier) -> tuple[str, ...]:
        """Everything."""
        return tuple(float_state(model))

    def watches(self, model: Classifier) -> tuple[str, ...]:
        """The encoder's convolution tensors.

        Raises:
            JobError: when there are none.
        """
        found = tuple(
            name
            for name, tensor in float_state(model).items()
            if name.startswith("encoder.") and tensor.ndim == CONVOLUTION
        )
        if not found:
            raise JobError(
                f"sync ema measures how convolutions change, and {type(model.encoder).__name__} has none; "
                "choose a convolutional model, or sync all"
            )
        return found

    def note(self, before: Tensors, after: Tensors, notes: Notes) -> Notes:
        """d, and λ once it is known."""
        divergence = fmean(change(before[name], after[name]) for name in before)
        if SCALE in notes:
            return {DIVERGENCE: divergence, SCALE: notes[SCALE]}
        return {DIVERGENCE: divergence, SCALE: self.tau / divergence} if divergence else {}

    def merge(self, received: Tensors, kept: Tensors, notes: Notes) -> dict[str, Tensor]:
        """μ W_k + (1 − μ) W_g; what arrives, where the client has nothing of its own or did not change."""
        own_share = min(notes[SCALE] * notes[DIVERGENCE], 1.0) if SCALE in notes else 0.0
        merged = {**kept, **received}
        for name in received.keys() & kept.keys():
            if self.buffers == "local" and name.endswith(BUFFERS):
                merged[name] = kept[name]
            else:
                merged[name] = torch.lerp(received[name], kept[name], own_share)
        return merged


def change(before: Tensor, after: Tensor) -> float:
    """The L2 norm of a tensor's change."""
    return float(torch.linalg.vector_norm(after.double() - before.double()))


SYNCS: PartTable[Sync] = PartTable("sync", SyncAll, SyncExcept, SyncNone, SyncEMA, base=Sync)

"""FedEMA: a client averages what arrives with its own, the more the less it moved (Zhuang et al. 2022).

Everything travels, and a client keeps its own of it too. From its second participation on it starts from

    W_k ← μ W_k + (1 − μ) W_g,    μ = min(λ d, 1),    λ = τ / d at the client's first

for W_k what it had after its last local training, W_g what arrives, and d the divergence: the mean over the
encoder's convolution tensors of the L2 norm of their change in the client's last local training, as in the
authors' code. λ stays what it was after the client's first, so that μ is τ the second time. The first time a
client takes W_g, from which its momentum network starts too. With the objective `byol` and
`momentum_encoder: keep` this is FedEMA.

A client whose convolutions did not change (d = 0) takes W_g; its λ is fixed at the first d above 0.

Departures: all that travels is averaged so, normalisation statistics and the objective's heads among it;
the paper speaks of encoder and predictor. A client that missed rounds averages what arrives with what it
had then, as the equation is written; the authors' code has this and, for clients that are drawn, a second
way, in which such a client takes W_g for both of its networks.
"""

from statistics import fmean
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from training.algorithms.sync.base import BUFFERS, Notes, Sync
from training.errors import JobError
from training.messages.message import Tensors
from training.models.classifier import Classifier
from training.models.groups import float_state

DIVERGENCE, SCALE = "divergence", "scale"  # d and λ in a client's notes
CONVOLUTION = 4  # dimensions of a convolution's weights


class SyncEMA(Sync):
    """Everything travels, and is averaged with what the client had.

    Attributes:
        tau: τ, what μ is the second time.
    """

    name: Literal["ema"] = "ema"
    tau: float = Field(0.7, gt=0, le=1)

    def stays(self, model: Classifier) -> frozenset[str]:
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

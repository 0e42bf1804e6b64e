"""Rotation: tell by how many quarters a picture was turned (Gidaris et al. 2018, Eq. 3).

    loss(x) = − 1/K Σ_{y=0}^{K−1} log F^y(g(x | y)),  K = 4, g turns x by 90° · y

All four turns of a picture are in the batch, as in the paper. With fedavg this is FedRotation.

Departures: pictures are cut and coloured before they are turned, as the job's `augment` says.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.augmentations import AugmentConfig, augment
from training.messages import Tensors
from training.models import Classifier
from training.models.network import Network, num_features
from training.objectives.base import Batch, LocalTask, LocalWork, Objective
from training.objectives.epochs import unlabelled_batches
from training.objectives.ledger import LossLedger

TURNS = 4


class Rotation(Objective):
    """Cross-entropy over the four quarter turns.

    The flips of `augment` are off by default: a flip up-down and a half turn are hard to tell apart.
    """

    self_supervised = True
    name: Literal["rotation"] = "rotation"
    augment: AugmentConfig = AugmentConfig(flip=False)

    def heads(self, model: Classifier) -> nn.Module:
        """A linear classifier of the four turns."""
        return nn.ModuleDict({"turns": nn.Linear(num_features(model), TURNS)})

    def begin(self, model: Classifier, work: LocalWork) -> LocalTask:
        """Prepare one client's round."""
        assert isinstance(model, Network)
        return RotationTask(self, model, work)


class RotationTask:
    """One client's round of telling turns."""

    def __init__(self, config: Rotation, model: Network, work: LocalWork) -> None:
        self._config = config
        self._model = model
        self._work = work
        self._ledger = LossLedger(work, work.examples)
        self._random = work.torch_generator("views")

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every picture once; each is seen in all four turns."""
        self._ledger.forget()
        self._random = self._work.torch_generator(f"views {epoch}")
        return unlabelled_batches(self._config, self._work, epoch)

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 3, the mean over the batch."""
        images = augment(batch.images, self._config.augment, self._random)
        turned = torch.cat([torch.rot90(images, turn, dims=(2, 3)) for turn in range(TURNS)])
        logits = self._model.heads.get_submodule("turns")(self._model.embed(turned))
        turns = torch.arange(TURNS, device=images.device).repeat_interleave(len(images))
        losses = F.cross_entropy(logits.float(), turns, reduction="none").view(TURNS, -1).mean(dim=0)
        self._ledger.add(batch.positions, losses)
        return losses.mean()

    def after_step(self) -> None:
        """Nothing follows a step."""

    def num_examples(self) -> Mapping[str, int]:
        """All pictures by subgroup."""
        return self._ledger.num_examples()

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over the last epoch."""
        return self._ledger.losses()

    def outgoing(self) -> Tensors:
        """Nothing travels besides weights."""
        return {}

    def keep(self) -> Tensors:
        """Nothing stays."""
        return {}

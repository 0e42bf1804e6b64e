"""Rotation: predict by how many quarters a picture was turned (Gidaris et al. 2018, Eq. 3).

    loss(x) = − 1/K Σ_{y=0}^{K−1} log F^y(g(x | y)),  K = 4, g turns x by 90° · y

All four turns of a picture are in the batch, as in the paper. With fedavg this is FedRotation.

Departures: pictures are cut and coloured before they are turned, as the job's `augment` says.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import UnlabelledTask
from training.models import Classifier
from training.models.cases import Network

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
        return nn.ModuleDict({"turns": nn.Linear(model.num_features, TURNS)})

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        assert isinstance(model, Network)
        return RotationTask(self, model, work)


class RotationTask(UnlabelledTask):
    """One client's round of predicting turns."""

    def __init__(self, config: Rotation, model: Network, work: LocalRound) -> None:
        super().__init__(config, work, views=1)
        self._model = model

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 3, the mean over the batch; each picture is seen in all four turns."""
        images = batch.images
        turned = torch.cat([torch.rot90(images, turn, dims=(2, 3)) for turn in range(TURNS)])
        logits = self._model.heads.get_submodule("turns")(self._model.embed(turned))
        turns = torch.arange(TURNS, device=images.device).repeat_interleave(len(images))
        losses = F.cross_entropy(logits.float(), turns, reduction="none").view(TURNS, len(images)).mean(dim=0)
        self._losses.add(batch.positions, losses)
        return losses.mean()

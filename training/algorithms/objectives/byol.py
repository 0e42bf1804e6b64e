"""BYOL: from one view of a picture, predict what a momentum network makes of another (Grill et al. 2020).

For z'_ξ the projection of a view by the momentum network ("target"), q_θ(z_θ) the prediction from the other
view's projection by the network that learns ("online"), all scaled to length 1 (their Eq. 2)

    L_{θ,ξ} = ‖q_θ(z_θ) − z'_ξ‖² = 2 − 2 q_θ(z_θ)·z'_ξ

and the loss of a picture is L + L~, with L~ the same for the views swapped. After each step ξ follows θ
(`training.algorithms.objectives.momentum`). With fedavg this is FedBYOL, and with sync
`ema` FedEMA.

Departures: the momentum is the same all along, where the paper raises it to 1 over the whole training; views
are SimCLR's, both drawn alike and without solarization. The momentum network holds a predictor too, which
nothing asks.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.momentum import MomentumStart, MomentumTask, project, projection_head
from training.algorithms.objectives.simclr import VIEWS
from training.models import Classifier
from training.models.cases import Network


class BYOL(Objective):
    """Predict the momentum network's projection of another view.

    Attributes:
        momentum: how much of itself the momentum network keeps at each step (τ in the paper).
        features: the width of the projections.
        hidden: the width of both heads' hidden layer; by default twice that of the encoder's features, which
            is the paper's 4096 for a ResNet-50.
        momentum_encoder: whether the momentum network starts each round as the received network (`reset`) or
            goes on where the client's was (`keep`).
    """

    self_supervised = True
    name: Literal["byol"] = "byol"
    batch_size: int = Field(64, ge=2)
    augment: AugmentConfig = VIEWS
    momentum: float = Field(0.996, ge=0, lt=1)
    features: int = Field(256, ge=1)
    hidden: int | None = Field(None, ge=1)
    momentum_encoder: MomentumStart = "reset"

    def heads(self, model: Classifier) -> nn.Module:
        """Projector and predictor."""
        width = model.num_features
        hidden = self.hidden or 2 * width
        return nn.ModuleDict(
            {
                "projector": projection_head(width, hidden, self.features),
                "predictor": projection_head(self.features, hidden, self.features),
            }
        )

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        assert isinstance(model, Network)
        return BYOLTask(self, model, work, self.momentum, self.momentum_encoder)


class BYOLTask(MomentumTask):
    """One client's round of BYOL."""

    def loss(self, batch: Batch) -> Tensor:
        """L + L~, the mean over the batch; each view passes alone, as batch norm sees it in the paper."""
        first, second = batch.images.chunk(2)
        with torch.no_grad():
            targets = [project(self._momentum.network, view) for view in (second, first)]
        predictor = self._model.heads.get_submodule("predictor")
        predictions = [predictor(project(self._model, view)) for view in (first, second)]
        losses = distance(predictions[0], targets[0]) + distance(predictions[1], targets[1])
        self._losses.add(batch.positions, losses)
        return losses.mean()


def distance(predictions: Tensor, targets: Tensor) -> Tensor:
    """Eq. 2 for each picture `(batch,)`, from features `(batch, features)` of any length."""
    return 2 - 2 * F.cosine_similarity(predictions.float(), targets.float(), dim=1)

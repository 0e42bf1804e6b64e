"""MoCo v3: two views of a picture agree, against the batch's keys (Chen et al. 2021, Algorithm 1).

For q_i the prediction from a view of picture i by the network that learns, k_j the projection of another view
of picture j by the momentum network, all scaled to length 1, and τ the temperature

    ctr(q, k)_i = − 2τ log( e^{q_i·k_i/τ} / Σ_j e^{q_i·k_j/τ} )

with j over the batch: there is no bank. The loss of a picture is ctr(q_1, k_2) + ctr(q_2, k_1) for its views
1 and 2. After each step the momentum network follows
(`training.algorithms.objectives.momentum`). With fedavg this is FedMoCoV3.

A vision transformer's patch projection stays at its random initial weights (their section 4.2): its gradient
is what makes training unstable. Other encoders have no such layer, and all of them is trained.

Departures: the momentum is the same all along; the authors' code can raise it to 1 over the whole training.
A transformer's positions are the classifier's own, where the paper fixes them to sines. What is projected
is what the classifier takes: the class token, as in the authors' code, with the option `global_pool:
token`. Convolutional encoders get a transformer's heads; the authors give them a shorter projector.
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
from training.models.classifier import group_names


class MoCoV3(Objective):
    """Contrast against the momentum network's keys of the batch.

    Attributes:
        temperature: τ.
        momentum: how much of itself the momentum network keeps at each step.
        features: the width of q and k.
        hidden: the width of the heads' hidden layers, 4096 in the paper; by default twice that of the
            encoder's features.
        momentum_encoder: whether the momentum network starts each round as the received network (`reset`) or
            goes on where the client's was (`keep`).
        frozen_patch_projection: whether a vision transformer's patch projection is left as it is.
    """

    self_supervised = True
    name: Literal["mocov3"] = "mocov3"
    batch_size: int = Field(64, ge=2)
    augment: AugmentConfig = VIEWS
    temperature: float = Field(0.2, gt=0)
    momentum: float = Field(0.99, ge=0, lt=1)
    features: int = Field(256, ge=1)
    hidden: int | None = Field(None, ge=1)
    momentum_encoder: MomentumStart = "reset"
    frozen_patch_projection: bool = True

    def heads(self, model: Classifier) -> nn.Module:
        """A projector of three layers and a predictor of two, each with batch norm up to its end."""
        width = model.num_features
        hidden = self.hidden or 2 * width
        return nn.ModuleDict(
            {
                "projector": projection_head(width, hidden, hidden, self.features, norm_last=True),
                "predictor": projection_head(self.features, hidden, self.features, norm_last=True),
            }
        )

    def frozen(self, model: Classifier) -> frozenset[str]:
        """The patch projection, where there is one."""
        if self.frozen_patch_projection and hasattr(model.encoder, "patch_embed"):
            return group_names(model, "patch_projection")
        return frozenset()

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        assert isinstance(model, Network)
        return MoCoV3Task(self, model, work)


class MoCoV3Task(MomentumTask):
    """One client's round of MoCo v3."""

    def __init__(self, config: MoCoV3, model: Network, work: LocalRound) -> None:
        super().__init__(config, model, work, config.momentum, config.momentum_encoder)
        self._temperature = config.temperature

    def loss(self, batch: Batch) -> Tensor:
        """ctr(q_1, k_2) + ctr(q_2, k_1), the mean over the batch."""
        views = batch.images.chunk(2)
        with torch.no_grad():
            first_keys, second_keys = (project(self._momentum.network, view) for view in views)
        predictor = self._model.heads.get_submodule("predictor")
        first, second = (predictor(project(self._model, view)) for view in views)
        losses = contrast(first, second_keys, self._temperature)
        losses = losses + contrast(second, first_keys, self._temperature)
        self._losses.add(batch.positions, losses)
        return losses.mean()


def contrast(queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """ctr(q, k) for each picture `(batch,)`, from features `(batch, features)` of any length."""
    similarity = F.normalize(queries.float(), dim=1) @ F.normalize(keys.float(), dim=1).T
    itself = torch.arange(len(queries), device=queries.device)
    return 2 * temperature * F.cross_entropy(similarity / temperature, itself, reduction="none")

"""SimCLR: two views of a picture agree, against all other pictures of the batch (Chen et al. 2020).

For the 2B views of a batch, z the projected features scaled to length 1 and τ the temperature, the loss of
view i with its partner j is NT-Xent (their Eq. 1)

    l_{i,j} = − log( e^{z_i·z_j/τ} / Σ_{k ≠ i} e^{z_i·z_k/τ} )

and the batch's loss is the mean over all views. With fedavg this is FedSimCLR.

Departures: a batch norm in the projection head is left out: its statistics over two views of a small local
batch would travel.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import UnlabelledTask
from training.models import Classifier
from training.models.cases import Network, projection

VIEWS = AugmentConfig(
    crop=(0.2, 1.0),
    brightness=0.4,
    contrast=0.4,
    saturation=0.4,
    hue=0.1,
    colour_probability=0.8,
    grey_probability=0.2,
    blur_probability=0.5,
)
"""What makes a view by default; milder in colour than the paper's, since colour tells lesions apart."""


class SimCLR(Objective):
    """NT-Xent over the batch.

    Attributes:
        temperature: τ.
        features: the width of z.
        hidden: the width of the head's hidden layer; by default that of the encoder's features.
    """

    self_supervised = True
    name: Literal["simclr"] = "simclr"
    augment: AugmentConfig = VIEWS
    temperature: float = Field(0.5, gt=0)
    features: int = Field(128, ge=1)
    hidden: int | None = Field(None, ge=1)

    def heads(self, model: Classifier) -> nn.Module:
        """The projection head."""
        width = model.num_features
        return nn.ModuleDict({"projector": projection(width, self.hidden or width, self.features)})

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        assert isinstance(model, Network)
        return SimCLRTask(self, model, work)


class SimCLRTask(UnlabelledTask):
    """One client's round of SimCLR."""

    def __init__(self, config: SimCLR, model: Network, work: LocalRound) -> None:
        super().__init__(config, work, views=2)
        self._model = model
        self._temperature = config.temperature

    def loss(self, batch: Batch) -> Tensor:
        """NT-Xent of two views of each picture."""
        projected = self._model.heads.get_submodule("projector")(self._model.embed(batch.images))
        losses = nt_xent(projected.float(), self._temperature)
        self._losses.add(batch.positions, losses)
        return losses.mean()


def nt_xent(projected: Tensor, temperature: float) -> Tensor:
    """Eq. 1 for each picture `(batch,)`, the mean over its two views.

    Args:
        projected: features of the first views and then of the second `(2 batch, features)`, any length.
        temperature: τ.
    """
    z = F.normalize(projected, dim=1)
    similarity = z @ z.T / temperature
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    partner = torch.arange(len(z), device=z.device).roll(len(z) // 2)
    losses = F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner, reduction="none")
    return losses.view(2, -1).mean(dim=0)

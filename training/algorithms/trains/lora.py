"""Low-rank adapters of the encoder learn with the head (LoRA, Hu et al. 2022, section 4.1).

    W = W_0 + (α / r) B A

for every linear layer and convolution of the encoder, with W_0 as it is; A is Gaussian and drawn from the
job's seed, B begins at zero. Adapters and head travel, normalisation statistics do not move, and in the end
the adapters are added into the weights: the stage leaves a plain model. See `training.models.lora`.

Departures: the paper has one learner. A and B are averaged each by itself, as FedIT does (Zhang et al. 2024);
Σ_c w_c B_c Σ_c w_c A_c is not Σ_c w_c B_c A_c, the average of the clients' models (Sun et al. 2024).
"""

from typing import Literal

from pydantic import Field

from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import Objective
from training.algorithms.sync import Sync
from training.algorithms.trains.base import Trains
from training.algorithms.trains.part import OverPart, Part, SyncPart
from training.messages.message import Tensors
from training.models import Classifier
from training.models.groups import float_state
from training.models.heads import carrying
from training.models.lora import HEADS, Adapted, Adapters, merge_adapters


class TrainsLora(Trains, Part):
    """The head and adapters of the encoder; to an optimizer's `encoder_rate` they are of the encoder.

    Attributes:
        rank: r, at most; a layer whose smaller side is below takes that.
        alpha: α; a change counts α / r.
    """

    name: Literal["lora"] = "lora"
    rank: int = Field(8, ge=1)
    alpha: float = Field(8.0, gt=0)

    @property
    def scale(self) -> float:
        """The factor s = α / r."""
        return self.alpha / self.rank

    def network(self, model: Classifier) -> Classifier:
        """The model, shared, with adapters on its encoder."""
        return carrying(model, Adapters(model, self.rank, without=model.head_names))

    def local_model(self, local_model: LocalModel) -> LocalModel:
        """One whose model carries the adapters."""
        return local_model.learning(self)

    def moves(self, network: Classifier) -> frozenset[str]:
        """The adapters' factors, and the head."""
        factors = {name for name in float_state(network) if name.startswith(HEADS)}
        return frozenset(factors | set(network.head_names))

    def view(self, network: Classifier) -> Classifier:
        """The network that computes with its adapters."""
        return Adapted(network, self.scale)

    def objective(self, objective: Objective) -> Objective:
        """The objective over the part."""
        return OverPart.of(objective, part=self)

    def sync(self, sync: Sync) -> Sync:
        """The part travels."""
        return SyncPart(part=self)

    def merged(self, weights: Tensors) -> Tensors:
        """The plain model."""
        return merge_adapters(weights, self.scale)

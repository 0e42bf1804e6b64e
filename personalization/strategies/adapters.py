"""Low-rank adapters on every linear layer and convolution (LoRA, Hu et al. 2022, section 4.1).

    W ← W + (α / r) B A,   A Gaussian and B zero at first,

with W and everything else frozen, normalisation statistics included. Only A and B learn and travel; for
evaluation, selection and export they are added into W, so that a plain model is judged and released. See
`training.models.lora`, also for what departs from the paper in a layer.

Departures: the paper has one learner. With several clients that train one personal model A and B are averaged
each by itself, weighted by pictures, as FedIT does (Zhang et al. 2024); Σ_c w_c B_c Σ_c w_c A_c is not
Σ_c w_c B_c A_c, the average of their models. With one client both are the same.
"""

from typing import Literal

import torch
from pydantic import Field

from personalization.strategies.part import PartStrategy
from training.algorithms.local_model import LocalModel
from training.messages.message import Tensors
from training.models import Classifier
from training.models.cases import Network
from training.models.classifier import float_state
from training.models.lora import HEADS, Adapted, Adapters, merge_adapters


class LowRank(PartStrategy):
    """Adapters move.

    Attributes:
        rank: r.
        alpha: α; a change counts α / r.
    """

    name: Literal["adapters"] = "adapters"
    rank: int = Field(8, ge=1)
    alpha: float = Field(8.0, gt=0)

    @property
    def scale(self) -> float:
        """The factor s = α / r."""
        return self.alpha / self.rank

    def moves(self, network: Classifier) -> frozenset[str]:
        """The adapters' factors."""
        return frozenset(name for name in float_state(network) if name.startswith(HEADS))

    def view(self, network: Classifier) -> Classifier:
        """The network that computes with its adapters."""
        return Adapted(network, self.scale)

    def heads(self, model: Classifier) -> Adapters:
        """Adapters for the model's layers."""
        return Adapters(model, self.rank)

    def network(self, model: Classifier, seed: int) -> Classifier:
        """The model with adapters, A drawn from `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Network(model, self.heads(model))

    def local_model(self, local_model: LocalModel) -> LocalModel:
        """One whose model carries adapters on the same encoder."""
        return local_model.with_heads(self.local_objective())

    def merged(self, weights: Tensors) -> Tensors:
        """The plain model."""
        return merge_adapters(weights, self.scale)

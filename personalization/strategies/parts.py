"""Strategies that train a part of the model: its last layer, its normalisation layers, or adapters.

**head**: the classifier's last layer alone learns, on features that stay the global model's.

    min_{W, b} (1 / N) Σ_n l_ce(softmax(W f(x_n) + b), t_n)

for f the encoder, which every personal model shares (the personal layers of Arivazhagan et al. 2019, with
one layer). The encoder gets no gradient and its batch normalisations stay in evaluation mode, so that none of
its statistics move and, unless the model drops features or paths, f is the same function in training and
afterwards. Of a model of cases the fusion learns with the classifier, as it does on a frozen encoder.

Departures: the paper trains base and personal layers together from the start; here the base is the finished
global model.

**norm**: the normalisation layers alone learn (after FedBN, Li et al. 2021, section 4).

    min_{γ, β} F(γ, β; θ),    y = γ (x − μ) / sqrt(σ² + ε) + β

for γ and β of every normalisation layer and θ everything else, which stays the global model's. With
`statistics` the running μ and σ² become those of the personal pictures as well, as FedBN keeps them local.

Departures: FedBN keeps these layers apart from the first round on; here they part from the finished global
model. With several clients that train one personal model its layers are averaged among them.

**adapters**: low-rank, on every linear layer and convolution (LoRA, Hu et al. 2022, section 4.1).

    W ← W + (α / r) B A,   A Gaussian and B zero at first,

with W and everything else frozen, normalisation statistics included. Only A and B learn and travel; for
evaluation, selection and export they are added into W, so that a plain model is judged and released. See
`training.models.lora`, also for what departs from the paper in a layer.

Departures: the paper has one learner. With several clients that train one personal model A and B are averaged
each by itself, weighted by pictures, as FedIT does (Zhang et al. 2024); Σ_c w_c B_c Σ_c w_c A_c is not
Σ_c w_c B_c A_c, the average of their models. With one client both are the same.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from personalization.strategies.base import PartStrategy
from training.algorithms.local_model import LocalModel
from training.algorithms.sync import BUFFERS
from training.errors import JobError
from training.messages import Tensors
from training.models import Classifier
from training.models.cases import Network
from training.models.classifier import FrozenBatchNormClassifier, float_state, group_names
from training.models.lora import HEADS, Adapted, Adapters, merge_adapters


class Head(PartStrategy):
    """The linear classifier moves."""

    takes_cases: ClassVar[bool] = True
    name: Literal["head"] = "head"

    def moves(self, network: Classifier) -> frozenset[str]:
        """Weight and bias of the last layer; of a model of cases everything behind the encoder."""
        return group_names(network, "head")


class Norm(PartStrategy):
    """What normalisation layers learn moves.

    Attributes:
        statistics: whether their running means and variances move too.
    """

    name: Literal["norm"] = "norm"
    statistics: bool = True

    def moves(self, network: Classifier) -> frozenset[str]:
        """γ, β and, if they move, the statistics.

        Raises:
            JobError: when the model has no normalisation layer, or none that learns.
        """
        found = group_names(network, "norm")
        learned = frozenset(name for name in found if not name.endswith((*BUFFERS, "num_batches_tracked")))
        if not learned:
            raise JobError(
                "strategy norm has nothing to train: no normalisation layer of the model has weights; "
                "choose another model.name, or the strategy head, adapters or finetune"
            )
        return found if self.statistics else learned

    def view(self, network: Classifier) -> Classifier:
        """The network itself, or one whose statistics stand still."""
        return network if self.statistics else FrozenBatchNormClassifier(network)


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

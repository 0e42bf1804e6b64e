"""Which part of the model learns in a stage, and the table of what a job may name."""

from abc import ABC, abstractmethod
from typing import Literal

from pydantic import Field
from torch import nn

from registry.bundle.plugins import PartTable
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives import Objective
from training.algorithms.objectives.base import Around, LocalRound, LocalTask
from training.algorithms.sync import Sync
from training.config import FrozenConfig
from training.errors import JobError
from training.messages import Tensors
from training.models import Classifier
from training.models.cases import carrying
from training.models.classifier import FrozenBatchNormClassifier, encoder_layers, float_state
from training.models.lora import HEADS, Adapted, Adapters, merge_adapters
from training.models.probe import behind_encoder


class Trainable(FrozenConfig, ABC):
    """Which part of the model learns."""

    name: str

    def network(self, model: Classifier) -> Classifier:
        """The network whose state learns, in which the model's tensors keep their names.

        What of it is new is drawn from torch's generator.

        Raises:
            JobError: when the model has no such part.
        """
        return model

    def local_model(self, local_model: LocalModel) -> LocalModel:
        """The local model of the network."""
        return local_model

    def merged(self, weights: Tensors) -> Tensors:
        """The model's state, of the network's."""
        return weights

    def objective(self, objective: Objective) -> Objective:
        """What a client minimises, for the stage's objective."""
        return objective

    def sync(self, sync: Sync) -> Sync:
        """What travels, for the stage's sync."""
        return sync


class TrainableAll(Trainable):
    """Encoder and head."""

    name: Literal["all"] = "all"


class Part(FrozenConfig):
    """A part of a model that learns, the objective over it, and the sync with which it alone travels.

        min_{θ_P} F(θ_P, θ_rest)

    for θ_P the part. The rest gets no gradient and stays at the client, which was given it once: only the
    part travels. Normalisation statistics outside the part do not move either
    (`training.models.classifier`).
    """

    @abstractmethod
    def moves(self, network: Classifier) -> frozenset[str]:
        """The names of the state that changes, statistics among them."""

    def view(self, network: Classifier) -> Classifier:
        """The network as local training sees it; by default none of its statistics move."""
        return FrozenBatchNormClassifier(network)

    def heads(self, model: Classifier) -> nn.Module | None:
        """The modules put on the model while it trains; None for none."""
        return None


class OverPart(Around):
    """Another objective, of which only a part learns."""

    part: Part

    def heads(self, model: Classifier) -> nn.Module | None:
        """What goes on the model while the part trains."""
        return self.part.heads(model)

    def frozen(self, model: Classifier) -> frozenset[str]:
        """Every parameter outside the part, and those that the other objective leaves alone."""
        outside = {name for name, _ in model.named_parameters()} - self.part.moves(model)
        return self.inner.frozen(model) | outside

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """The other objective's round on the network as the part shows it."""
        return self.inner.begin(self.part.view(model).train(), work)


class SyncPart(Sync):
    """Only a part travels.

    What stays does not change, so that there is nothing to average at the end.
    """

    name: Literal["part"] = "part"
    average_at_end: bool = False
    part: Part

    def local(self, model: Classifier) -> frozenset[str]:
        """The names of everything but the part."""
        return frozenset(float_state(model)) - self.part.moves(model)


class TrainableHead(Trainable):
    """The head learns on what a frozen encoder sees, as in linear probing (Alain and Bengio 2017).

        min_W (1 / N) Σ_n l_ce(softmax(W f(x_n)), t_n)

    with f the encoder, which is never touched. Each client makes f(x_n) of its pictures once, and of some
    augmented views of those it trains on, and keeps them; a round then costs what W costs. Of a model of
    cases the fusion learns with the head.

    Attributes:
        views: how many augmented views of each training picture are seen in addition to the picture itself,
            drawn as the objective's `augment` says. Each costs as much time and storage as the pictures
            themselves.
    """

    name: Literal["head"] = "head"
    views: int = Field(0, ge=0, le=64)

    def network(self, model: Classifier) -> Classifier:
        """A copy of what is behind the encoder."""
        return behind_encoder(model)


class TrainablePart(Trainable, Part):
    """A part of the network learns, and it alone is sent."""

    def objective(self, objective: Objective) -> Objective:
        """The objective over the part."""
        return OverPart.of(objective, part=self)

    def sync(self, sync: Sync) -> Sync:
        """The sync of the part."""
        return SyncPart(part=self)


class TrainableLastBlocks(TrainablePart):
    """The last blocks of the encoder learn with the head; what is before them stays as it is.

    Layers near the pictures see what all pictures have, the last ones what their task was (Yosinski et al.
    2014). Normalisation statistics do not move, also where what follows them learns: a hospital with few
    pictures would shift them.

    Attributes:
        blocks: how many, of timm's layers of the encoder.
    """

    name: Literal["last_blocks"] = "last_blocks"
    blocks: int = Field(2, ge=1)

    def moves(self, network: Classifier) -> frozenset[str]:
        """Head and last blocks.

        Raises:
            JobError: when the encoder has no more blocks than that: all of it would learn.
        """
        head = set(network.head_names)
        layers = {name: layer for name, layer in encoder_layers(network).items() if name not in head}
        kinds = sorted(set(layers.values()))
        if self.blocks >= len(kinds):
            raise JobError(
                f"trains.blocks is {self.blocks}, and this encoder has {len(kinds)} layers; name fewer, or "
                "set trainable: {name: all}"
            )
        learning = set(kinds[-self.blocks :])
        return frozenset(head | {name for name, layer in layers.items() if layer in learning})


class TrainableLora(TrainablePart):
    """Low-rank adapters of the encoder learn with the head (LoRA, Hu et al. 2022, section 4.1).

        W = W_0 + (α / r) B A

    for every linear layer and convolution of the encoder, with W_0 as it is; A is Gaussian and drawn from the
    job's seed, B begins at zero. Adapters and head travel, normalisation statistics do not move, and in the
    end the adapters are added into the weights: the stage leaves a plain model. See `training.models.lora`.

    Departures: the paper has one learner. A and B are averaged each by itself, as FedIT does (Zhang et al.
    2024); Σ_c w_c B_c Σ_c w_c A_c is not Σ_c w_c B_c A_c, the average of the clients' models (Sun et al.
    2024).

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

    def merged(self, weights: Tensors) -> Tensors:
        """The plain model."""
        return merge_adapters(weights, self.scale)


TRAINABLE: PartTable[Trainable] = PartTable(
    "trainable part",
    TrainableAll,
    TrainableHead,
    TrainableLastBlocks,
    TrainableLora,
    base=Trainable,
    plural="trainables",
)

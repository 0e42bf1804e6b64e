"""The local model: one model, its optimizers and device, shared by all clients that a process plays."""

from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from training.algorithms.optimizers import OptimizerConfig, build_optimizer
from training.errors import JobError
from training.messages.message import Tensors
from training.models import Classifier
from training.models.cases import Network
from training.models.classifier import float_state
from training.models.probe import LinearProbe, behind_encoder


class HasHeads(Protocol):
    """An objective, as far as its model goes."""

    def heads(self, model: Classifier) -> nn.Module | None:
        """What goes on the encoder while it trains; None for nothing."""


class HasNetwork(Protocol):
    """What learns in a stage, as far as its network goes."""

    def network(self, model: Classifier) -> Classifier:
        """The network that learns, made of the model."""


class DividesNames(Protocol):
    """A sync, as far as the model's names go."""

    def shared(self, model: Classifier) -> tuple[str, ...]:
        """Names of the tensors that travel."""

    def keeps(self, model: Classifier) -> tuple[str, ...]:
        """Names of the tensors that a client keeps."""

    def watches(self, model: Classifier) -> tuple[str, ...]:
        """Names of the tensors whose change is looked at."""


Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Division:
    """How a sync divides the names of a model's tensors: those that travel, are kept, or are watched."""

    shared: tuple[str, ...]
    keeps: tuple[str, ...]
    watches: tuple[str, ...]


class LocalModel:
    """One model into which every client's weights are copied in place, with the optimizers of its parameters.

    Args:
        model: the job's model.
        device: `auto` takes the GPU where there is one.
        precision: `bf16` runs forward passes under autocast; weights stay float32.
    """

    def __init__(self, model: Classifier, device: Device = "auto", precision: Precision = "float32") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise JobError("engine.device is cuda, but torch finds no GPU here; use `auto` or `cpu`")
        self.device = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.precision = precision
        self._device = device
        self._with_heads: dict[HasHeads, LocalModel] = {}
        self._learning: dict[HasNetwork, LocalModel] = {}
        self._optimizers: dict[OptimizerConfig, torch.optim.Optimizer] = {}
        self._divisions: dict[DividesNames, Division] = {}
        self._state = float_state(self.model)
        self._frozen_copies: list[Classifier] = []
        self._behind: LocalModel | None = None
        self._linear_probe: LocalModel | None = None

    def with_heads(self, objective: HasHeads) -> "LocalModel":
        """The local model for an objective: this one, or one with its heads on the same encoder."""
        if objective not in self._with_heads:
            heads = objective.heads(self.model)
            if heads is None:
                return self
            network = Network(self.model, heads)
            self._with_heads[objective] = LocalModel(network, self._device, self.precision)
        return self._with_heads[objective]

    def learning(self, part: HasNetwork) -> "LocalModel":
        """The local model of what learns; it shares this one's tensors."""
        if part not in self._learning:
            self._learning[part] = LocalModel(part.network(self.model), self._device, self.precision)
        return self._learning[part]

    def behind_encoder(self) -> "LocalModel":
        """The local model of what is behind the encoder, which takes features in place of pictures."""
        if self._behind is None:
            self._behind = LocalModel(behind_encoder(self.model), self._device, self.precision)
        return self._behind

    def linear_probe(self) -> "LocalModel":
        """The local model of a linear probe of the encoder, which takes features in place of pictures."""
        if self._linear_probe is None:
            self._linear_probe = LocalModel(LinearProbe(self.model), self._device, self.precision)
        return self._linear_probe

    def frozen_copies(self, count: int) -> list[Classifier]:
        """Copies of the model without gradients, made when they are first asked for."""
        while len(self._frozen_copies) < count:
            frozen_copy: Classifier = deepcopy(self.model)
            for parameter in frozen_copy.parameters():
                parameter.requires_grad = False
            self._frozen_copies.append(frozen_copy)
        return self._frozen_copies[:count]

    def load(self, tensors: Tensors) -> None:
        """Copy named tensors into the model in place."""
        with torch.no_grad():
            for name, tensor in tensors.items():
                self._state[name].copy_(tensor)

    def take(self, names: tuple[str, ...]) -> dict[str, Tensor]:
        """A copy on the CPU of the model's named tensors."""
        return {name: self._state[name].to("cpu", copy=True) for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the model's floating-point tensors, in order."""
        return tuple(self._state)

    def division(self, sync: DividesNames) -> Division:
        """How `sync` divides the model's names, which do not change: computed once, not once a client."""
        if sync not in self._divisions:
            model = self.model
            self._divisions[sync] = Division(sync.shared(model), sync.keeps(model), sync.watches(model))
        return self._divisions[sync]

    def optimizer(self, config: OptimizerConfig) -> torch.optim.Optimizer:
        """The optimizer for `config`, kept from client to client, with its state forgotten."""
        if config not in self._optimizers:
            self._optimizers[config] = build_optimizer(config, self.model)
        optimizer = self._optimizers[config]
        optimizer.state.clear()
        return optimizer

    def autocast(self) -> AbstractContextManager[None]:
        """The context in which forward passes run."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

"""What one process keeps and reuses for all the clients it plays: one model, its optimizers, the device."""

from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from training.errors import JobError
from training.messages import Tensors
from training.models import Classifier
from training.models.groups import float_state
from training.models.network import Network
from training.optimizers import OptimizerConfig, build_optimizer

if TYPE_CHECKING:
    from training.objectives.base import Objective
    from training.sync import Sync

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Division:
    """What a sync says of the model's names; see there."""

    travels: tuple[str, ...]
    keeps: tuple[str, ...]
    watches: tuple[str, ...]


class Workbench:
    """One model into which every client's weights are copied in place.

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
        self._with_heads: dict[Objective, Workbench] = {}
        self._optimizers: dict[OptimizerConfig, torch.optim.Optimizer] = {}
        self._divisions: dict[Sync, Division] = {}
        self._state = float_state(self.model)
        self._twins: list[Classifier] = []

    def with_heads(self, objective: "Objective") -> "Workbench":
        """The bench for an objective: this one, or one whose model has its heads on the same encoder."""
        if objective not in self._with_heads:
            heads = objective.heads(self.model)
            if heads is None:
                return self
            network = Network(self.model, heads)
            self._with_heads[objective] = Workbench(network, self._device, self.precision)
        return self._with_heads[objective]

    def twins(self, count: int) -> list[Classifier]:
        """Further models of the same shape, made when they are first asked for, without gradients."""
        while len(self._twins) < count:
            twin: Classifier = deepcopy(self.model)
            for parameter in twin.parameters():
                parameter.requires_grad = False
            self._twins.append(twin)
        return self._twins[:count]

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

    def division(self, sync: "Sync") -> Division:
        """What `sync` says of the model's names, which do not change: asked once, not once a client."""
        if sync not in self._divisions:
            model = self.model
            self._divisions[sync] = Division(sync.travels(model), sync.keeps(model), sync.watches(model))
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

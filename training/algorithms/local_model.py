"""The local model: one model, its optimizers and device, shared by all clients that a process plays.

Which optimizer and which schedule of learning rates, a job names.
"""

from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatch
from math import cos, pi
from typing import Any, Literal, Protocol

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from training.config import FrozenConfig
from training.errors import JobError
from training.messages import Tensors
from training.models.cases import Network
from training.models.classifier import Classifier, encoder_layers, float_state
from training.models.lora import weight_of
from training.models.probe import LinearProbe, behind_encoder


class OptimizerConfig(FrozenConfig):
    """Which optimizer, and what happens to its state between rounds.

    Attributes:
        lr: the base learning rate, before the schedule.
        layer_decay: how much slower each layer of the encoder learns than the one above it; 1 is no slower.
        encoder_rate: how fast the encoder learns, as a share of `lr`, in addition to `layer_decay`: a
            pre-trained encoder should change little while a new head learns.
        decay_norms: whether `weight_decay` is for all parameters. False spares biases, what normalisation
            learns and what the encoder's author spares (class token, position embedding), as the code of
            BEiT and MAE does.
        momentum: of SGD.
        betas: of Adam and AdamW.
        state: `reset` starts every round afresh; `keep` carries the state in the client's own store.
    """

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = Field(1e-4, gt=0)
    layer_decay: float = Field(1.0, gt=0, le=1)
    encoder_rate: float = Field(1.0, gt=0, le=1)
    weight_decay: float = Field(0.0, ge=0)
    decay_norms: bool = True
    momentum: float = Field(0.9, ge=0, lt=1)
    betas: tuple[float, float] = (0.9, 0.999)
    state: Literal["reset", "keep"] = "reset"


def build_optimizer(config: OptimizerConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all parameters of `model`, with torch's fused kernels.

    Every group carries `lr_scale`, the factor on its parameters' learning rate in addition to the schedule's.

    Raises:
        JobError: when `layer_decay` is below 1 and timm cannot tell the encoder's layers apart.
    """
    groups = parameter_groups(config, model)
    if config.name == "sgd":
        return torch.optim.SGD(
            groups, config.lr, momentum=config.momentum, weight_decay=config.weight_decay, fused=True
        )
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(groups, config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)


def parameter_groups(config: OptimizerConfig, model: nn.Module) -> list[dict[str, Any]]:
    """All parameters of `model`, those of one rate and one weight decay together, as torch takes groups.

    Within a group they keep the model's order, and groups come in the order of their first parameter; without
    `layer_decay`, `encoder_rate` and `decay_norms` there is one. Frozen parameters are among them: what
    trains may change while an optimizer is kept.
    """
    scales = {} if config.layer_decay == 1 else layer_scales(model, config.layer_decay)
    head = head_parameters(model) if config.encoder_rate < 1 else frozenset()
    spared = frozenset() if config.decay_norms else spared_from_decay(model)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        scale = scales.get(weight_of(name), 1.0) * (1.0 if name in head else config.encoder_rate)
        key = scale, 0.0 if name in spared else config.weight_decay
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": parameters, "lr": config.lr * scale, "lr_scale": scale, "weight_decay": weight_decay}
        for (scale, weight_decay), parameters in groups.items()
    ]


def head_parameters(model: nn.Module) -> frozenset[str]:
    """Names in `model` of the parameters outside its encoder, such as the linear head.

    An adapter belongs where the weight does that it changes.
    """
    inside = set(model.head_names) if isinstance(model, Classifier) else set()
    return frozenset(
        name
        for name, _ in model.named_parameters()
        if weight_of(name) in inside or not weight_of(name).startswith("encoder.")
    )


def layer_scales(model: nn.Module, decay: float) -> dict[str, float]:
    """The factor of the learning rate of each of the encoder's parameters, by its name in `model`.

    η_{l-1} = ξ η_l (Clark et al. 2020; Bao et al. 2022 and He et al. 2022 fine-tune so), with ξ for `decay`:
    over a depth of L blocks the linear head learns at 1, block l (1 to L) at ξ^(L + 1 - l), and what is
    before the blocks, such as patch and position embedding, at ξ^(L + 1).

    The layers are timm's. Departure: it puts a last `norm` with the last block, which BEiT's and MAE's code
    let learn at 1; their fine-tuning pools patches and normalises with `fc_norm`, which learns at 1 here too.

    Raises:
        JobError: when timm knows one layer only.
    """
    layers = encoder_layers(model)
    top = max(layers.values())
    if top == 0:
        encoder = model.get_submodule("encoder")
        raise JobError(
            f"optimizer.layer_decay: {decay:g} changes nothing, for timm knows one layer only in "
            f"{type(encoder).__name__}; leave layer_decay at 1 or take another model"
        )
    return {name: decay ** (top - layer) for name, layer in layers.items()}


def spared_from_decay(model: nn.Module) -> frozenset[str]:
    """Names of one-dimensional parameters, and of what timm's `no_weight_decay` lists for the encoder."""
    encoder: Any = model.get_submodule("encoder")
    listed = encoder.no_weight_decay() if hasattr(encoder, "no_weight_decay") else ()
    return frozenset(
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim <= 1 or any(fnmatch(name, f"encoder.{pattern}") for pattern in listed)
    )


class ScheduleConfig(FrozenConfig):
    """How the learning rate moves over a stage; `warmup_rounds` raises it linearly before that.

    Attributes:
        name: `constant`; `cosine`, which decays to 0 over all epochs of all rounds after the warm-up; or
            `steps`, which multiplies the rate by `gamma` after each of `milestones`.
        milestones: of `steps`, in rounds from the stage's start: 12 changes the rate from round 13 on.
        gamma: of `steps`.
    """

    name: Literal["constant", "cosine", "steps"] = "constant"
    warmup_rounds: int = Field(0, ge=0)
    milestones: tuple[int, ...] = ()
    gamma: float = Field(0.2, gt=0, lt=1)

    @field_validator("milestones")
    @classmethod
    def _rising(cls, milestones: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= earlier for earlier, later in zip((0, *milestones), milestones, strict=False)):
            raise ValueError(f"{list(milestones)} does not rise from 1 on; give each round once, in order")
        return milestones

    @model_validator(mode="after")
    def _milestones_are_of_steps(self) -> "ScheduleConfig":
        if self.name == "steps" and not self.milestones:
            raise ValueError(
                "schedule steps needs `milestones`; give rounds, e.g. [12, 16], or use `constant`"
            )
        if self.name != "steps" and self.milestones:
            raise ValueError(f"schedule {self.name} does not use `milestones`; remove it, or use `steps`")
        if self.milestones and self.milestones[0] < self.warmup_rounds:
            raise ValueError(
                f"milestone {self.milestones[0]} is within the warm-up of {self.warmup_rounds} rounds; "
                "give milestones after it, or shorten it"
            )
        return self

    def factor(self, round_: int, rounds: int, epoch: int, epochs: int) -> float:
        """The base rate's factor in `epoch` (0 to `epochs` − 1) of `round_` (1 to `rounds`)."""
        elapsed = round_ - 1 + epoch / epochs
        if elapsed < self.warmup_rounds:
            return (elapsed + 1 / epochs) / self.warmup_rounds
        if self.name == "constant":
            return 1.0
        if self.name == "steps":
            passed = sum(milestone <= elapsed for milestone in self.milestones)
            return float(self.gamma**passed)
        return 0.5 * (1 + cos(pi * (elapsed - self.warmup_rounds) / max(rounds - self.warmup_rounds, 1)))


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

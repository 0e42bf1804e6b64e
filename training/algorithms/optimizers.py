"""Optimizers and learning-rate schedules as a job names them."""

from fnmatch import fnmatch
from math import cos, pi
from typing import Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from torch import nn

from training.config import FrozenConfig
from training.errors import JobError
from training.models.classifier import Classifier, encoder_layers
from training.models.lora import weight_of


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

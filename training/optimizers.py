"""Optimizers and learning-rate schedules as a job names them."""

from math import cos, pi
from typing import Literal

import torch
from pydantic import Field
from torch import nn

from training.config import FrozenConfig


class OptimizerConfig(FrozenConfig):
    """Which optimizer, and what happens to its state between rounds.

    Attributes:
        lr: the base learning rate, before the schedule.
        momentum: of SGD.
        betas: of Adam and AdamW.
        state: `reset` starts every round afresh; `keep` carries the state in the client's own store.
    """

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = Field(1e-4, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    betas: tuple[float, float] = (0.9, 0.999)
    state: Literal["reset", "keep"] = "reset"


def build_optimizer(config: OptimizerConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all parameters of `model`, with torch's fused kernels."""
    parameters = list(model.parameters())
    if config.name == "sgd":
        return torch.optim.SGD(
            parameters, config.lr, momentum=config.momentum, weight_decay=config.weight_decay, fused=True
        )
    kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
    return kind(parameters, config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)


class ScheduleConfig(FrozenConfig):
    """How the learning rate moves over a stage.

    `cosine` decays to 0 over all epochs of all rounds; `warmup_rounds` raises it linearly before that.
    """

    name: Literal["constant", "cosine"] = "constant"
    warmup_rounds: int = Field(0, ge=0)

    def factor(self, round_: int, rounds: int, epoch: int, epochs: int) -> float:
        """The base rate's factor in `epoch` (0 to `epochs` − 1) of `round_` (1 to `rounds`)."""
        elapsed = round_ - 1 + epoch / epochs
        if elapsed < self.warmup_rounds:
            return (elapsed + 1 / epochs) / self.warmup_rounds
        if self.name == "constant":
            return 1.0
        return 0.5 * (1 + cos(pi * (elapsed - self.warmup_rounds) / max(rounds - self.warmup_rounds, 1)))

"""Second networks that follow the one that learns, and the perceptrons that they are compared behind."""

from abc import abstractmethod
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from training.algorithms.objectives.base import LocalRound, Objective
from training.algorithms.objectives.epochs import UnlabelledTask
from training.messages import Tensors, named, prefixed
from training.models import Classifier
from training.models.cases import Network
from training.models.classifier import float_state

MomentumStart = Literal["reset", "keep"]


class Follower:
    """A second network that follows the one that learns, and what the client keeps of it between rounds.

        θ' ← m θ' + (1 − m) θ

    `reset` starts every round from the received network, so that nothing of it stays; `keep` goes on with
    what the follower was after the client's last round, and starts from the received network at its first.

    Attributes:
        network: without gradients, of the same shape as the one that learns.
    """

    prefix: ClassVar[str]  # before the follower's state in what the client keeps

    def __init__(self, learner: Classifier, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `learner` from where `start` says, at `momentum` m."""
        self.network = work.frozen_copy()
        self._weight = 1 - momentum
        self._start = start
        kept = named(work.kept, self.prefix) if start == "keep" else {}
        load(self.network, kept or float_state(learner))
        self._followers, self._leaders = self.pairs(self.network), self.pairs(learner)

    @abstractmethod
    def pairs(self, network: Classifier) -> list[Tensor]:
        """What of a network follows, or is followed."""

    def follow(self) -> None:
        """The equation, once."""
        torch._foreach_lerp_(self._followers, self._leaders, self._weight)

    def keep(self) -> Tensors:
        """What the client keeps of it for its next round."""
        if self._start == "reset":
            return {}
        state = {name: tensor.to("cpu", copy=True) for name, tensor in float_state(self.network).items()}
        return prefixed(state, self.prefix)


class MomentumEncoder(Follower):
    """A momentum encoder: a second network that follows the one that learns (He et al. 2020, Eq. 2).

    Only parameters follow. Statistics of normalisation layers are the momentum network's own, gathered from
    what it sees in training mode, as in the authors' code; they start as the received ones.
    """

    prefix = "momentum/"
    network: Network

    def __init__(self, learner: Network, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `learner` from where `start` says, at `momentum` m."""
        super().__init__(learner, work, momentum, start)
        self.network.train()

    def pairs(self, network: Classifier) -> list[Tensor]:
        """The parameters."""
        return [parameter.detach() for parameter in network.parameters()]


class MeanTeacher(Follower):
    """A mean teacher: a second network that averages the student's weights (Tarvainen and Valpola 2017).

    The teacher is asked in evaluation mode: statistics of its normalisation layers are averages of the
    student's too, and no pass moves them.

    Departures: the momentum is the same all along; the paper and the authors' code start with a smaller one.
    """

    prefix = "teacher/"

    def __init__(self, learner: Classifier, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `learner` from where `start` says, at `momentum` m."""
        super().__init__(learner, work, momentum, start)
        self.network.eval()

    def pairs(self, network: Classifier) -> list[Tensor]:
        """Parameters and statistics."""
        return list(float_state(network).values())

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """Its probabilities `(batch, classes)` for pictures `(batch, 3, height, width)`."""
        logits: Tensor = self.network(images)
        return logits.float().softmax(dim=1)


class MomentumTask(UnlabelledTask):
    """One client's round over pictures in two views, with a momentum encoder that follows each step."""

    def __init__(
        self, objective: Objective, model: Network, work: LocalRound, momentum: float, start: MomentumStart
    ) -> None:
        super().__init__(objective, work, views=2)
        self._model = model
        self._momentum = MomentumEncoder(model, work, momentum, start)

    def after_step(self) -> None:
        """The momentum network follows."""
        self._momentum.follow()

    def keep(self) -> Tensors:
        """The momentum network, where it is kept."""
        return self._momentum.keep()


def project(network: Network, images: Tensor) -> Tensor:
    """Projections `(batch, features)`, of any length, of pictures `(batch, 3, height, width)`."""
    projected: Tensor = network.heads.get_submodule("projector")(network.embed(images))
    return projected.float()


def load(network: Classifier, state: Tensors) -> None:
    """Copy a whole floating-point state into a network in place."""
    with torch.no_grad():
        for name, tensor in float_state(network).items():
            tensor.copy_(state[name])


def projection_head(*widths: int, norm_last: bool = False) -> nn.Sequential:
    """Linear layers from each width to the next; batch norm and ReLU follow each but the last.

    Args:
        widths: of the input, the hidden layers and the output.
        norm_last: whether the output is normalised too, without a scale and a shift of its own.
    """
    layers: list[nn.Module] = []
    last = len(widths) - 2
    for place, (inside, outside) in enumerate(pairwise(widths)):
        normed = place < last or norm_last
        # What a bias adds, batch norm takes away.
        layers.append(nn.Linear(inside, outside, bias=not normed))
        if normed:
            layers.append(nn.BatchNorm1d(outside, affine=place < last))
        if place < last:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)

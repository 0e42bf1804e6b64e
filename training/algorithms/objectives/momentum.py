"""Second networks that follow the one that learns, and the perceptrons that they are compared behind."""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from training.algorithms.objectives.base import LocalRound
from training.messages.message import Tensors, named, prefixed
from training.models import Classifier
from training.models.cases import Network
from training.models.classifier import float_state

MomentumStart = Literal["reset", "keep"]
KEPT = "momentum/"  # before the momentum network's state in what the client keeps


class MomentumEncoder:
    """A momentum encoder: a second network that follows the one that learns (He et al. 2020, Eq. 2).

        θ_k ← m θ_k + (1 − m) θ_q

    for θ_q the parameters that gradients change and m the momentum. Only parameters follow so. Statistics of
    normalisation layers are the momentum network's own, gathered from what it sees in training mode, as in
    the authors' code; they start as the received ones.

    `reset` starts every round from the received network, so that nothing of it stays; `keep` goes on with
    what the client's momentum network was after its last round, statistics included, and starts from the
    received network at the client's first.

    Attributes:
        network: in training mode and without gradients, of the same shape as the one that learns.
    """

    def __init__(self, learner: Network, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `learner` from where `start` says, at `momentum` m."""
        network = work.frozen_copy()
        assert isinstance(network, Network)
        self.network = network.train()
        self._weight = 1 - momentum
        self._start = start
        kept = named(work.kept, KEPT) if start == "keep" else {}
        load(network, kept or float_state(learner))
        self._followers = [parameter.detach() for parameter in network.parameters()]
        self._leaders = [parameter.detach() for parameter in learner.parameters()]

    def follow(self) -> None:
        """Eq. 2, once."""
        torch._foreach_lerp_(self._followers, self._leaders, self._weight)

    def keep(self) -> Tensors:
        """What the client keeps of it for its next round."""
        if self._start == "reset":
            return {}
        state = {name: tensor.to("cpu", copy=True) for name, tensor in float_state(self.network).items()}
        return prefixed(state, KEPT)


def project(network: Network, images: Tensor) -> Tensor:
    """Projections `(batch, features)`, of any length, of pictures `(batch, 3, height, width)`."""
    projected: Tensor = network.heads.get_submodule("projector")(network.embed(images))
    return projected.float()


def load(network: Classifier, state: Tensors) -> None:
    """Copy a whole floating-point state into a network in place."""
    with torch.no_grad():
        for name, tensor in float_state(network).items():
            tensor.copy_(state[name])


TEACHER = "teacher/"  # before the teacher's state in what the client keeps


class MeanTeacher:
    """A mean teacher: a second network that averages the student's weights (Tarvainen and Valpola 2017).

        θ' ← α θ' + (1 − α) θ

    for θ the student's weights, θ' the teacher's and α the momentum. The teacher is asked in evaluation mode:
    statistics of its normalisation layers are averages of the student's too, and no pass moves them.

    `reset` starts every round from the received network; `keep` goes on with the teacher that the client had
    after its last round, and starts from the received network at the client's first.

    Departures: α is the same all along; the paper and the authors' code start with a smaller one.
    """

    def __init__(self, student: Classifier, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `student` from where `start` says, at `momentum` α."""
        self._network = work.frozen_copy().eval()
        self._weight = 1 - momentum
        self._start = start
        kept = named(work.kept, TEACHER) if start == "keep" else {}
        load(self._network, kept or float_state(student))
        self._followers = list(float_state(self._network).values())
        self._leaders = list(float_state(student).values())

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """Its probabilities `(batch, classes)` for pictures `(batch, 3, height, width)`."""
        logits: Tensor = self._network(images)
        return logits.float().softmax(dim=1)

    def follow(self) -> None:
        """The average, once."""
        torch._foreach_lerp_(self._followers, self._leaders, self._weight)

    def keep(self) -> Tensors:
        """What the client keeps of it for its next round."""
        if self._start == "reset":
            return {}
        state = {name: tensor.to("cpu", copy=True) for name, tensor in float_state(self._network).items()}
        return prefixed(state, TEACHER)


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

"""A mean teacher: a second network that averages the student's weights (Tarvainen and Valpola 2017).

    θ' ← α θ' + (1 − α) θ

for θ the student's weights, θ' the teacher's and α the momentum. The teacher is asked in evaluation mode:
statistics of its normalisation layers are averages of the student's too, and no pass moves them.

`reset` starts every round from the received network; `keep` goes on with the teacher that the client had
after its last round, and starts from the received network at the client's first.

Departures: α is the same all along; the paper and the authors' code start with a smaller one.
"""

import torch
from torch import Tensor

from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.components.momentum_encoder import MomentumStart, load
from training.messages.message import Tensors, named, prefixed
from training.models import Classifier
from training.models.groups import float_state

KEPT = "teacher/"  # before the teacher's state in what the client keeps


class MeanTeacher:
    """The teacher of one client's round."""

    def __init__(self, student: Classifier, work: LocalRound, momentum: float, start: MomentumStart) -> None:
        """Follow `student` from where `start` says, at `momentum` α."""
        self._network = work.frozen_copy().eval()
        self._weight = 1 - momentum
        self._start = start
        kept = named(work.kept, KEPT) if start == "keep" else {}
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
        return prefixed(state, KEPT)

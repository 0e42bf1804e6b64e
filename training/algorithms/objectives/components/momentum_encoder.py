"""A momentum encoder: a second network that follows the one that learns (He et al. 2020, Eq. 2).

    θ_k ← m θ_k + (1 − m) θ_q

for θ_q the parameters that gradients change and m the momentum. Only parameters follow so. Statistics of
normalisation layers are the momentum network's own, gathered from what it sees in training mode, as in the
authors' code; they start as the received ones.

`reset` starts every round from the received network, so that nothing of it stays; `keep` goes on with what
the client's momentum network was after its last round, statistics included, and starts from the received
network at the client's first.
"""

from typing import Literal

import torch
from torch import Tensor

from training.algorithms.objectives.base import LocalRound
from training.messages.message import Tensors, named, prefixed
from training.models import Classifier
from training.models.groups import float_state
from training.models.heads import Network

MomentumStart = Literal["reset", "keep"]
KEPT = "momentum/"  # before the momentum network's state in what the client keeps


class MomentumEncoder:
    """The momentum network of one client's round.

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

"""The tokenizer interface: maps each patch of a picture to a visual token, without being trained."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from training.algorithms.client import Client
from training.algorithms.objectives.base import Ask
from training.config import FrozenConfig
from training.messages.message import Broadcast, Tensors, Update, unknown_question
from training.models.patches import PatchGrid


class Tokenizer(FrozenConfig, ABC):
    """Where visual tokens come from."""

    name: str

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many tokens there are."""

    def network(self) -> nn.Module:
        """What it computes with, loaded once; its tensors are non-persistent buffers, which never travel."""
        return nn.Identity()

    def prepare(self, ask: Ask, seed: int) -> Tensors:
        """The shared state of all clients, made before the first round."""
        return {}

    def answer(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Update:
        """A client's answer to one of the questions of `prepare`."""
        raise unknown_question(broadcast)

    @abstractmethod
    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, shared_state: Tensors) -> Tensor:
        """The token of every patch `(batch, patches)`, int64.

        Args:
            images: pictures `(batch, 3, height, width)` in [0, 1].
            grid: how they are cut.
            network: what `network` made, on the pictures' device.
            shared_state: what `prepare` made, there too.
        """

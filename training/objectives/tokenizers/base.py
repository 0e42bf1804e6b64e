"""What a tokenizer is: it names each patch of a picture by one of so many visual tokens, untrained."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor, nn

from training.config import FrozenConfig
from training.messages import Broadcast, Tensors, Update, unknown_question
from training.models.patches import PatchGrid

if TYPE_CHECKING:
    from training.client import Client
    from training.objectives.base import Ask


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

    def prepare(self, ask: "Ask", seed: int) -> Tensors:
        """What every client must be given before the first round."""
        return {}

    def answer(self, broadcast: Broadcast, client: "Client", grid: PatchGrid) -> Update:
        """A client's answer to one of the questions of `prepare`."""
        raise unknown_question(broadcast)

    @abstractmethod
    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, given: Tensors) -> Tensor:
        """The token of every patch `(batch, patches)`, int64.

        Args:
            images: pictures `(batch, 3, height, width)` in [0, 1].
            grid: how they are cut.
            network: what `network` made, on the pictures' device.
            given: what `prepare` made, there too.
        """

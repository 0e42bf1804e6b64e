"""What an exchange is: tensors that go out beside the weights, and what it keeps of what comes back.

On the wire an exchange's tensors carry its own prefix, so that they can never be taken for weights.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from training.config import FrozenConfig
from training.messages import Tensors, Update

PREFIX = "exchange/"


class Exchange(FrozenConfig, ABC):
    """What else travels in a round, and through whose hands.

    Attributes:
        comes_back: whether clients answer with tensors of the exchange; where they do not, such are refused.
    """

    comes_back: ClassVar[bool] = False
    name: str

    @abstractmethod
    def outgoing(self, client: str, round_: int, memory: Tensors) -> Tensors:
        """What goes to `client` beside the weights in this round, from the server's `memory`."""

    @abstractmethod
    def collect(self, update: Update, memory: Tensors) -> Tensors:
        """The server's memory after `update` came in."""

"""What an exchange is: tensors that go out beside the weights, and what it keeps of what comes back.

On the wire an exchange's tensors carry its own prefix, so that they can never be taken for weights.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from training.config import FrozenConfig
from training.messages import Tensors, Update

if TYPE_CHECKING:
    from training.objectives.base import Objective

PREFIX = "exchange/"


class Exchange(FrozenConfig, ABC):
    """What else travels in a round, and through whose hands.

    Attributes:
        comes_back: whether clients answer with tensors of the exchange; where they do not, such are refused.
        opens: whether clients are asked for such tensors before the first round too.
    """

    comes_back: ClassVar[bool] = False
    opens: ClassVar[bool] = False
    name: str

    @abstractmethod
    def outgoing(self, client: str, round_: int, memory: Tensors, random: np.random.Generator) -> Tensors:
        """What goes to `client` beside the weights in this round.

        Args:
            client: to whom.
            round_: which round.
            memory: what the server remembers.
            random: draws for this client and round.
        """

    @abstractmethod
    def collect(self, update: Update, memory: Tensors) -> Tensors:
        """The server's memory after `update` came in."""

    def check(self, update: Update, memory: Tensors) -> None:
        """Refuse an answer whose tensors of the exchange are not what it collects, given what it has.

        Raises:
            MessageError: naming the client, what was found and what is allowed.
        """
        return

    def fit_with(self, objective: "Objective") -> None:
        """Refuse an objective that gives or takes nothing of what travels here.

        Raises:
            ValueError: saying which objective this exchange needs.
        """
        return

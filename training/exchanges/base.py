"""What an exchange is: tensors that go out beside the weights, and what it keeps of what comes back.

On the wire an exchange's tensors carry its own prefix, so that they can never be taken for weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from training.config import FrozenConfig
from training.messages import Tensors, Update

if TYPE_CHECKING:
    from training.desk import Desk
    from training.objectives.base import Objective

PREFIX = "exchange/"


@dataclass(frozen=True)
class Parcel:
    """What goes to one client beside the weights.

    Attributes:
        tensors: the content.
        note: what is told of it in the log, JSON-able; it does not travel.
    """

    tensors: Tensors = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)


class Exchange(FrozenConfig, ABC):
    """What else travels in a round, and through whose hands.

    Attributes:
        comes_back: whether clients answer with tensors of the exchange; where they do not, such are refused.
        opens: whether clients are asked for such tensors before the first round too.
    """

    comes_back: ClassVar[bool] = False
    opens: ClassVar[bool] = False
    name: str

    @property
    def needs_server(self) -> bool:
        """Whether uploads are judged on validation pictures that the coordinator owns."""
        return False

    @property
    def carries_weights(self) -> bool:
        """Whether it passes on what clients upload."""
        return False

    @abstractmethod
    def outgoing(
        self, client: str, round_: int, memory: Tensors, random: np.random.Generator, desk: "Desk"
    ) -> Parcel:
        """What goes to `client` beside the weights in this round.

        Args:
            client: to whom.
            round_: which round.
            memory: what the server remembers.
            random: draws for this client and round.
            desk: what is at hand at the coordinator.
        """

    @abstractmethod
    def collect(self, update: Update, memory: Tensors, desk: "Desk") -> Tensors:
        """The server's memory after `update` came in."""

    def conclude(self, clients: Sequence[str], round_: int, memory: Tensors, desk: "Desk") -> Tensors:
        """The server's memory after all of a round came in and went into the new model.

        What needs the clients' answers no more but asks the server anew has its place here.

        Args:
            clients: whose updates were collected.
            round_: in which round.
            memory: what the server remembers.
            desk: what is at hand at the coordinator.
        """
        return memory

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

    def facts(self, memory: Tensors) -> Mapping[str, Any]:
        """What is told of the exchange after the last round, JSON-able."""
        return {}

"""The exchange interface: tensors sent in addition to the weights, and the server's memory of the answers.

On the wire an exchange's tensors carry its own prefix, so that they can never be taken for weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, Protocol

import numpy as np
from torch import Tensor

from training.config import FrozenConfig
from training.messages import Tensors, Update

PREFIX = "exchange/"


@dataclass(frozen=True)
class ServerContext:
    """Functions of the coordinator that an exchange may call.

    Attributes:
        put, get: keep what a client uploaded in a round, and give it back; see
            `training.rounds.server.plan`.
        validation_accuracy: the accuracy of travelling weights on the coordinator's own validation pictures;
            None where their answers cannot be counted.
        predict_noise: the probabilities `(pictures, classes)` of a model with these travelling weights for so
            many pictures of noise, the same for all models.
    """

    put: Callable[[str, int, Tensors, int | None], None]
    get: Callable[[str, int], Tensors]
    validation_accuracy: Callable[[Tensors], float | None]
    predict_noise: Callable[[Tensors, int], Tensor]


@dataclass(frozen=True)
class Parcel:
    """The tensors that an exchange sends to one client in addition to the weights, and a note for the log.

    Attributes:
        tensors: the content.
        note: what is logged of them, JSON-able; it is not sent.
    """

    tensors: Tensors = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)


Shared = Literal["features", "relations", "peers"]
SHARING: Mapping[Shared, str] = {"features": "moco", "relations": "fedirm", "peers": "fixmatch"}  # objectives


class Shares(Protocol):
    """An objective, as far as exchanges go."""

    shares: ClassVar[frozenset[Shared]]

    @property
    def name(self) -> str:
        """What the job calls it."""


class Exchange(FrozenConfig, ABC):
    """What else travels in a round, and through whose hands.

    Attributes:
        shared: what an objective has to share for this exchange to be of use; None where any will do.
        comes_back: whether clients answer with tensors of the exchange; where they do not, such are refused.
        opens: whether clients are asked for such tensors before the first round too.
    """

    shared: ClassVar[Shared | None] = None
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
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """What is sent to `client` in addition to the weights in this round.

        Args:
            client: to whom.
            round_: which round.
            memory: what the server remembers.
            random: draws for this client and round.
            server_context: what it may call at the coordinator.
        """

    @abstractmethod
    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """The server's memory after `update` came in."""

    def conclude(
        self, clients: Sequence[str], round_: int, memory: Tensors, server_context: ServerContext
    ) -> Tensors:
        """The server's memory after all of a round came in and went into the new model.

        Put work here that no longer needs the clients' answers but sends a further request to the server.

        Args:
            clients: whose updates were collected.
            round_: in which round.
            memory: what the server remembers.
            server_context: what it may call at the coordinator.
        """
        return memory

    def check(self, update: Update, memory: Tensors) -> None:
        """Refuse an answer whose tensors of the exchange are not what it collects, given what it has.

        Raises:
            MessageError: naming the client, what was found and what is allowed.
        """
        return

    def fit_with(self, objective: Shares) -> None:
        """Refuse an objective that gives or takes nothing of what is sent here.

        Raises:
            ValueError: naming both.
        """
        if self.shared is not None and self.shared not in objective.shares:
            raise ValueError(
                f"{objective.name} does not share {self.shared}; use the exchange {self.name} with "
                f"{SHARING[self.shared]}, or leave it out"
            )

    def facts(self, memory: Tensors) -> Mapping[str, Any]:
        """What is reported of the exchange after the last round, JSON-able."""
        return {}


class NoExchange(Exchange):
    """Nothing goes out and nothing is kept."""

    name: Literal["none"] = "none"

    def outgoing(
        self,
        client: str,
        round_: int,
        memory: Tensors,
        random: np.random.Generator,
        server_context: ServerContext,
    ) -> Parcel:
        """Nothing."""
        return Parcel()

    def collect(self, update: Update, memory: Tensors, server_context: ServerContext) -> Tensors:
        """Nothing to remember."""
        return memory


def unavailable(*_: object) -> NoReturn:
    """Stands in for every function where the exchange needs no server context."""
    raise AssertionError("these rounds were planned without a server context")


EMPTY_CONTEXT = ServerContext(unavailable, unavailable, unavailable, unavailable)

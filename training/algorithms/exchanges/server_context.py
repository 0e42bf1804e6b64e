"""The server context: what an exchange may call at the coordinator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from torch import Tensor

from training.messages.message import Tensors


@dataclass(frozen=True)
class ServerContext:
    """Functions of the coordinator that an exchange may call.

    Attributes:
        put, get: keep what a client uploaded in a round, and give it back; see
            `training.rounds.server.services`.
        validation_accuracy: the accuracy of travelling weights on the coordinator's own validation pictures;
            None where their answers cannot be counted.
        predict_noise: the probabilities `(pictures, classes)` of a model with these travelling weights for so
            many pictures of noise, the same for all models.
    """

    put: Callable[[str, int, Tensors, int | None], None]
    get: Callable[[str, int], Tensors]
    validation_accuracy: Callable[[Tensors], float | None]
    predict_noise: Callable[[Tensors, int], Tensor]


def unavailable(*_: object) -> NoReturn:
    """Stands in for every function where the exchange needs no server context."""
    raise AssertionError("these rounds were planned without a server context")


EMPTY_CONTEXT = ServerContext(unavailable, unavailable, unavailable, unavailable)

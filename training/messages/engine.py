"""The engine interface: sends questions to clients and returns their answers."""

from collections.abc import Sequence
from typing import Protocol

from training.messages.message import Answer, Broadcast


class Engine(Protocol):
    """Asks clients, wherever they are."""

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """One answer or failure to each question, in the order of the questions.

        The answers' tensors may be on disk and are valid until the next call.
        """

    def close(self) -> None:
        """End whatever the engine started."""

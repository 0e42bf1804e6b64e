"""A canary that ends the process it sings in: what began is on disk, so that the next process can tell."""

from collections.abc import Callable
from pathlib import Path

from training.canary import CANARY, STEPS
from training.files import write_text
from training.messages import Answer, Broadcast, Failure

DEATHS = 2  # a process may be ended once for reasons of its own


class Rehearsals:
    """Counts the canaries that began and never ended.

    Args:
        path: where; there is no such file but while one is under way, or after a process was ended by it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self, question: Broadcast, answer: Callable[[Broadcast], Answer]) -> Answer:
        """The answer to a question; of a canary that ended the process before, that it did."""
        if question.ask != CANARY:
            return answer(question)
        deaths = self._deaths()
        if deaths >= DEATHS:
            self._path.unlink()
            return Failure(
                question.client,
                question.track,
                f"{question.client} cannot train: its process was ended {deaths} times while it trained "
                f"{STEPS} batches, most often for lack of memory",
            )
        write_text(self._path, f"{deaths + 1}\n")
        answered = answer(question)
        self._path.unlink()
        return answered

    def _deaths(self) -> int:
        try:
            return int(self._path.read_text())
        except (OSError, ValueError):
            return 0

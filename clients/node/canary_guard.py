"""Surviving a canary that kills its process: attempts are counted on disk and reported afterwards."""

from collections.abc import Callable
from pathlib import Path

from training.files import write_text
from training.messages.message import Answer, Broadcast, Failure
from training.rounds.canary import CANARY, STEPS

DEATHS = 2  # a process may be ended once for reasons of its own


class CanaryGuard:
    """Counts the canaries that began and never ended, across processes.

    Args:
        path: where; there is no such file but while one is under way, or after a process was ended by it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self, question: Broadcast, answer: Callable[[Broadcast], Answer]) -> Answer:
        """The answer to a question; to a canary that killed the process twice, a `Failure` instead."""
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

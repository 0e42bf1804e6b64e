"""Adaptive deadlines: how long a site may take to answer, from how long its last answers took."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from training.jobs.settings import NetworkConfig
from training.messages.message import Broadcast

REMEMBERED = 10  # answers of a kind


class Deadlines:
    """The deadlines of each site and kind of question.

    deadline = max(shortest, slack x slowest of the last ten answers); before there is one, `first_deadline`.

    Args:
        config: the job's.
        known: what `to_json` gave, of an earlier stay in the job.
    """

    def __init__(self, config: NetworkConfig, known: Mapping[str, Any] | None = None) -> None:
        self._config = config
        self._taken = {
            key: deque(map(float, seconds), maxlen=REMEMBERED) for key, seconds in (known or {}).items()
        }

    def took(self, question: Broadcast, seconds: float) -> None:
        """Learn from an answer."""
        self._taken.setdefault(kind(question), deque(maxlen=REMEMBERED)).append(seconds)

    def deadline(self, question: Broadcast) -> float:
        """Seconds that the site may take."""
        taken = self._taken.get(kind(question))
        if not taken:
            return self._config.first_deadline
        return max(self._config.shortest_deadline, self._config.slack * max(taken))

    def to_json(self) -> dict[str, list[float]]:
        """The durations of the last answers, in seconds, by kind of question."""
        return {key: [round(seconds, 3) for seconds in taken] for key, taken in self._taken.items()}


def kind(question: Broadcast) -> str:
    """The kind of a question: those of one client, stage, question and model take about as long."""
    return f"{question.client}/{question.stage}/{question.ask}/{question.track}"

"""The ledger: of which rounds the coordinator has a site's training, on disk.

A site that trained in a round whose answer never arrived must forget it. So each question names the last
round whose answer did arrive; after a restart from a checkpoint, the last one before the round that is done
again.
"""

import json
from pathlib import Path
from typing import Any

from training.files import write_text
from training.messages import Broadcast

KEPT = 3  # rounds by site and model: the present one, and those that a checkpoint may lead back to


class Ledger:
    """Which answers arrived.

    Args:
        path: its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rounds: dict[str, list[int]] = {}
        self.pace: dict[str, Any] = {}
        if path.exists():
            content = json.loads(path.read_text())
            self._rounds, self.pace = content["rounds"], content["pace"]

    def before(self, question: Broadcast) -> int:
        """The last round whose training arrived, before a training that is asked for now (or again).

        What was noted of this round and later ones is of a course that was abandoned, and crossed out.
        """
        earlier = [done for done in self._rounds.get(place(question), ()) if done < question.round]
        self._rounds[place(question)] = earlier
        return max(earlier, default=0)

    def latest(self, question: Broadcast) -> int:
        """The last round whose training arrived, for any other question."""
        return max(self._rounds.get(place(question), ()), default=0)

    def enter(self, question: Broadcast) -> None:
        """Note that a training arrived."""
        self._rounds[place(question)] = [*self._rounds.get(place(question), ())[-KEPT + 1 :], question.round]

    def save(self, pace: dict[str, list[float]]) -> None:
        """Write it down.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        self.pace = pace
        write_text(self._path, json.dumps({"rounds": self._rounds, "pace": pace}) + "\n")


def place(question: Broadcast) -> str:
    """Where a site keeps what belongs to a question."""
    return f"{question.client}/{question.stage}/{question.track}"

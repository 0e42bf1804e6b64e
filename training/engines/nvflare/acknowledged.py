"""Acknowledged rounds: of which rounds the coordinator has received each site's training, on disk.

A site that trained in a round whose answer never arrived must forget it. So each question names the last
round whose answer did arrive; after a restart from a checkpoint, the last one before the round that is done
again.
"""

import json
from pathlib import Path

from training.files import write_text
from training.messages.message import Broadcast

KEPT = 3  # rounds by site and model: the present one, and those that a checkpoint may lead back to


class AcknowledgedRounds:
    """The rounds whose training arrived, by site and model.

    Args:
        path: the file they are kept in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rounds: dict[str, list[int]] = {}
        if path.exists():
            self._rounds = json.loads(path.read_text())

    def before(self, question: Broadcast) -> int:
        """The last round whose training arrived, before a training that is asked for now (or again).

        What was noted of this round and later ones is of a course that was abandoned, and crossed out.
        """
        earlier = [done for done in self._rounds.get(key_of(question), ()) if done < question.round]
        self._rounds[key_of(question)] = earlier
        return max(earlier, default=0)

    def latest(self, question: Broadcast) -> int:
        """The last round whose training arrived, to send with any other question."""
        return max(self._rounds.get(key_of(question), ()), default=0)

    def add(self, question: Broadcast) -> None:
        """Note that a training arrived."""
        self._rounds[key_of(question)] = [
            *self._rounds.get(key_of(question), ())[-KEPT + 1 :],
            question.round,
        ]

    def save(self) -> None:
        """Write the file.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        write_text(self._path, json.dumps(self._rounds) + "\n")


def key_of(question: Broadcast) -> str:
    """The key of a question's client, stage and model."""
    return f"{question.client}/{question.stage}/{question.track}"

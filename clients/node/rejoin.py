"""How a job's process takes the place of one that was killed: what that had agreed on, from the disk.

`clients.federation.job_launcher` starts it. The coordinator's session goes on, so nobody greets it or sends
it the roster; and what a client keeps between two questions lies in its store. What went down with the first
process are the question under way and the last answer: the coordinator hears from the next heartbeat that
the process is another, and asks again.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from training.atomic_files import write_text
from training.engines.nvflare.channel import REFUSED
from training.errors import EngineError, MessageError, tell
from training.messages.message import Answer, Failure
from training.updates.secure_aggregation.messages import QUESTIONS

FILE = "session.json"  # in the run's folder
SESSION, GREETING, ROSTER = "session", "greeting", "roster"
ENDED = 1  # the exit code of a process that cannot take another's place; not of one that a signal ended


class LostError(MessageError):
    """What a message is about went down with the process before this one; it is to be asked anew."""


class Greeted(Protocol):
    """Who takes part in a session; see `clients.node.request_handler.RequestHandler`."""

    def greet(self, greeting: str) -> str:
        """See there."""

    def introduce(self) -> str:
        """See there."""

    def join(self, roster: str) -> str:
        """See there."""


class Rejoin:
    """Keeps what the coordinator and this node have agreed on in a job, and agrees to it again.

    Args:
        path: of the file; by default nothing is kept.
        session: FLARE's job, which is the coordinator's session.
        end: ends this process, and the job with it; the run is then taken up at all sites.

    Attributes:
        before: whether another process has been in this job, whose place this one takes.
    """

    def __init__(
        self, path: Path | None = None, session: str = "", end: Callable[[int], None] = os._exit
    ) -> None:
        self._path = path
        self._end = end
        found = self._read()
        self.before = bool(found) and found.get(SESSION) == session
        self._kept = found if self.before else {SESSION: session}
        if not self.before:
            self.keep()

    def keep(self, **agreed: str) -> None:
        """Write down a greeting or a roster that was agreed to.

        Raises:
            CheckpointError: the disk does not take it.
        """
        self._kept = {**self._kept, **agreed}
        if self._path is not None:
            write_text(self._path, json.dumps(self._kept) + "\n")

    def replay(self, handler: Greeted) -> None:
        """Agree again to what the process before had agreed to.

        Raises:
            EngineError: this node does not agree to it any more.
        """
        greeting, roster = self._kept.get(GREETING), self._kept.get(ROSTER)
        if greeting is None:
            return
        replies = [handler.greet(greeting), handler.introduce()]
        if roster is not None:
            replies.append(handler.join(roster))
        for reply in replies:
            content = json.loads(reply)
            if REFUSED in content:
                raise tell(EngineError(f"its process was started again and cannot go on: {content[REFUSED]}"))

    def refuse_lost(self) -> None:
        """Refuse to speak of a message that only the process before can have had.

        Raises:
            LostError: there was one.
        """
        if self.before:
            raise tell(LostError("its process was started again, and knows nothing of this message"))

    def end_if_lost(self, answer: Answer, ask: str) -> None:
        """End the job where the process before was killed within a sum under masks that cannot go on.

        A step of a sum is answered once. Where its answer was lost, nothing but a new sum helps.
        """
        if self.before and isinstance(answer, Failure) and ask in QUESTIONS:
            self._end(ENDED)

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text()) if self._path is not None else {}
        except (OSError, ValueError):
            return {}  # none was written, or one is damaged: then it was killed before it agreed to anything
        return found if isinstance(found, dict) else {}

"""One question at a time at a node, whichever of its processes answers it.

A coordinator that lies may have a node run two jobs at once. What a node keeps so that two answers do not
tell more than one is looked up before an answer and written down with it: the account of differences, over
whom sums were, whose keys are known, how often noise was drawn. Two processes that looked up at the same time
would both find nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clients.node.journal import private
from training.errors import MessageError, tell
from training.files import locked_within

FILE = "one-question.lock"  # in a kit's `private`
PATIENCE = 300.0  # seconds that a process which is about to end may take


@contextmanager
def one_question(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold a node's lock for as long as a question is answered; one that was killed holds it no more.

    Args:
        path: of the lock.
        patience: seconds to wait for another process.

    Raises:
        MessageError: another process is at work for longer.
        OSError: the lock cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", opener=private) as lock:
        if not locked_within(lock, patience):
            raise tell(
                MessageError(
                    f"another process of this node has been at work for {patience:g} seconds "
                    "on a question of another job; stop that job, or ask again when it has answered"
                )
            )
        yield

"""A lock of the system's on a file, which whoever is killed holds no more."""

import fcntl
import time
from typing import IO, Any

PAUSE = 0.05  # seconds between two tries


def locked_within(file: IO[Any], seconds: float) -> bool:
    """Take a file's lock until it is closed, waiting so long for whoever holds it; whether it is ours now."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(PAUSE)
        else:
            return True

"""Copying a node's marked log lines to the console of `dermfed-node start`.

The processes write to the log themselves, and not to us: they live on when we are killed.
"""

import threading
from collections.abc import Callable
from pathlib import Path

POLL = 0.5  # seconds between looks at the log
MARK = " dermfed: "  # in each line that is of interest to whoever watches the node


class ConsoleLog:
    """Prints new lines of a log that contain the mark, from a thread.

    Args:
        log: of the node.
        say: takes one line.
    """

    def __init__(self, log: Path, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._offset = log.stat().st_size if log.exists() else 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="echo")

    def start(self) -> None:
        """Begin to print lines that are appended from now on."""
        self._thread.start()

    def close(self) -> None:
        """Print what is left and end the thread."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(POLL):
            self._poll()
        self._poll()

    def _poll(self) -> None:
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if MARK in line:
                self._say(line)

"""What a node's processes say of their tasks, on the console of `dermfed-node start` as well as in its log.

The processes write to the log themselves, and not to us: they live on when we are killed.
"""

import threading
from collections.abc import Callable
from pathlib import Path

LOOK = 0.5  # seconds between looks at the log
MARK = " dermfed: "  # in each line that is of interest to whoever watches the node


class Echo:
    """Repeats new lines of a log that bear the mark.

    Args:
        log: of the node.
        say: takes one line.
    """

    def __init__(self, log: Path, say: Callable[[str], None]) -> None:
        self._log = log
        self._say = say
        self._place = log.stat().st_size if log.exists() else 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="echo")

    def start(self) -> None:
        """Begin to repeat what is said from now on."""
        self._thread.start()

    def close(self) -> None:
        """Repeat what is left."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ended.wait(LOOK):
            self._look()
        self._look()

    def _look(self) -> None:
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._place)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._place += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if MARK in line:
                self._say(line)

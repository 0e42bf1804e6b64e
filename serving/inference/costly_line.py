"""A line of its own for pictures that cost much to decode: one thread takes one after the other.

The threads that work on all other pictures do not wait for it. Few pictures may stand in it.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from serving.metrics.metrics import Metrics
from serving.protocol.problems import Busy

MAX_COSTLY: Final = 8
"""How many costly pictures may wait for their thread."""

Picture = TypeVar("Picture")


class CostlyLine(Generic[Picture]):
    """Costly pictures that wait, and the thread that decodes them."""

    def __init__(self, decode: Callable[[Picture], None], metrics: Metrics) -> None:
        """Starts no thread yet.

        Args:
            decode: decodes a picture and hands it on; what goes wrong with a picture is its own affair.
            metrics: where pictures that are refused are counted.
        """
        self._decode = decode
        self._metrics = metrics
        self._waiting: deque[Picture] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._work = threading.Condition()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, picture: Picture) -> None:
        """Puts a picture into the line.

        Raises:
            Busy: as many wait as may.
        """
        with self._work:
            if len(self._waiting) >= MAX_COSTLY:
                self._metrics.busy()
                raise Busy(
                    "as many pictures that take long to decode are waiting as may; try again, or send a "
                    "smaller copy as a JPEG that is not progressive",
                    {"Retry-After": "5"},
                )
            self._waiting.append(picture)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="costly", daemon=True)
                self._thread.start()
            self._work.notify()

    def discard(self, picture: Picture) -> None:
        """Takes a picture out of the line, if it still waits."""
        with self._work:
            if picture in self._waiting:
                self._waiting.remove(picture)

    def close(self) -> None:
        """Ends the thread after the picture that it is at."""
        with self._work:
            self._closed = True
            self._work.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._work:
                while not (self._waiting or self._closed):
                    self._work.wait()
                if self._closed:
                    return
                picture = self._waiting.popleft()
            self._decode(picture)
            del picture  # it references a version, which may be freed

"""One thread for what may block: the event loop puts work into its line, and waits only so long for it.

A disk that hangs, or a lock that another process holds, would otherwise stop every request of the process.
What is given up stays in the line and is done as soon as it can be.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

log = logging.getLogger("dermfed.serve")

Done = TypeVar("Done")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any] | None"]


class LineFullError(Exception):
    """So much waits already that no more is taken; this work will not be done."""


class NotYetError(Exception):
    """The work was not done in time; it is still in the line."""


class OneThread:
    """A thread that does one piece of work after the other, in their order; started with the first."""

    def __init__(self, name: str, most: int, patience: float) -> None:
        """Starts nothing yet.

        Args:
            name: of the thread.
            most: how many pieces of work may wait.
            patience: how long somebody waits for theirs; seconds.
        """
        self._name = name
        self._most = most
        self._patience = patience
        self._line: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._began: float | None = None  # when the work that is being done was begun; on the monotonic clock
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many pieces of work wait, besides the one that is being done."""
        return self._line.qsize()

    @property
    def stuck_for(self) -> float:
        """How long the piece of work takes that is being done, where that is past all patience; else 0."""
        began = self._began
        took = 0.0 if began is None else time.monotonic() - began
        return took if took > self._patience else 0.0

    async def run(self, work: Callable[[], Done]) -> Done:
        """Does a piece of work in the thread; returns or raises what it does.

        Raises:
            LineFullError: too much waits; it will not be done.
            NotYetError: it takes too long, or what was before it does; it will be done.
        """
        if self._closed or self._line.qsize() >= self._most:
            raise LineFullError
        loop = asyncio.get_running_loop()
        stuck = self.stuck_for
        answer: asyncio.Future[Done] | None = None if stuck else loop.create_future()
        self._line.put((work, answer))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        if answer is None:
            raise NotYetError
        given_up = loop.call_later(self._patience, _give_up, answer)
        try:
            return await answer
        finally:
            given_up.cancel()

    def close(self, patience: float) -> int:
        """Ends the thread after what waits, or after so many seconds; returns how much is not done."""
        self._closed = True
        if self._thread is None:
            return 0
        self._line.put(None)
        self._thread.join(patience)
        if not self._thread.is_alive():
            return 0
        left = 1
        with suppress(Empty):
            while True:
                left += self._line.get_nowait() is not None
        self._line.put(None)
        return left

    def _run(self) -> None:
        while (taken := self._line.get()) is not None:
            work, answer = taken
            self._began = time.monotonic()
            try:
                done, error = work(), None
            except Exception as raised:  # noqa: BLE001 - raised again for whoever waits
                done, error = None, raised
            self._began = None
            if answer is None:
                _told(error)
                continue
            try:
                answer.get_loop().call_soon_threadsafe(_resolve, answer, done, error)
            except RuntimeError:  # the loop has ended, and with it whoever waited
                _told(error)
            del taken, work, answer, done


def _resolve(answer: "asyncio.Future[Any]", done: object, error: Exception | None) -> None:
    if answer.done():  # nobody waits for it any more
        _told(error)
    elif error is None:
        answer.set_result(done)
    else:
        answer.set_exception(error)


def _give_up(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(NotYetError())


def _told(error: Exception | None) -> None:
    if error is not None:
        log.error("work for which nobody waits any more failed", exc_info=error)

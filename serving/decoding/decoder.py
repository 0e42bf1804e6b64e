"""A worker as whoever asks it sees it: one question at a time, and only so long for the answer."""

import mmap
import os
import resource
import signal
import threading
import time
from contextlib import suppress
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from serving.decoding.forking import Forked, Template
from serving.decoding.wire import Answer, Question, WireError, question_parts, read_answer

Reason = Literal["time", "memory", "crash"]
"""Why a worker ended with a picture: it took too long, the system had no memory for it, or anything else."""

WALL: Final = 4
"""How many times as long the clock may run: others want the cores too."""

_LOOK: Final = 0.1  # seconds between two looks at what a worker has used


class DecoderEnded(Exception):  # noqa: N818 - reads as what it says where it is caught
    """The worker ended, or was killed, before it answered.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Decoder:
    """A worker that was forked.

    Attributes:
        questions: how many it was asked.
    """

    def __init__(self, template: Template, memory: int) -> None:
        """Has a worker forked.

        Raises:
            NoTemplateError: none can be.
        """
        self._template = template
        self._forked: Forked = template.fork(memory)
        self._forked.line.settimeout(_LOOK)
        self._pixels = np.frombuffer(self._forked.pixels, np.uint8)
        self._limit = self._clock_limit = 0.0
        self._ended: tuple[int | None] | None = None
        self._ending = threading.Lock()
        self.questions = 0

    @property
    def lives(self) -> bool:
        """Whether it waits for a question: it has neither ended nor said anything unasked."""
        self._forked.line.setblocking(False)
        try:
            self._forked.line.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._forked.line.settimeout(_LOOK)
        return False

    def ask(self, question: Question, seconds: float) -> Answer:
        """Asks it to decode a picture.

        Args:
            question: the picture.
            seconds: of one core that the answer may take, and `WALL` times as many by the clock.

        Raises:
            DecoderEnded: there is no answer, and there will be none.
        """
        self.questions += 1
        self._clock_limit = time.monotonic() + WALL * seconds
        try:
            self._limit = self._used() + seconds
            self._cap(self._limit + 1)  # should nobody look, the system does
            for part in question_parts(question, self._pixels):
                self._send(part)
            return read_answer(self._read)
        except (EOFError, ConnectionError, ProcessLookupError) as error:
            raise DecoderEnded(_reason(self._end())) from error
        except WireError as error:
            self._end()
            raise DecoderEnded("crash") from error

    def pixels(self, size: int) -> NDArray[np.uint8]:
        """The pixels of the last answer, `(size, size, 3)`: a copy that the worker has no hand on."""
        return self._pixels[: 3 * size * size].reshape(size, size, 3).copy()

    def forget(self) -> None:
        """Empties the shared memory: of neither the picture nor its pixels anything stays there."""
        self._forked.pixels.madvise(mmap.MADV_REMOVE)

    def kill(self) -> None:
        """Ends the worker; whoever asks it just now is told so."""
        self._end()

    def close(self) -> None:
        """Ends the worker, whom nobody asks."""
        self._end()
        self._forked.line.close()

    def _end(self) -> int | None:
        with self._ending:
            if self._ended is None:
                self._ended = (self._template.end(self._forked),)
            return self._ended[0]

    def _send(self, part: bytes) -> None:
        view = memoryview(part)
        while view:
            with suppress(TimeoutError):
                view = view[self._forked.line.send(view) :]
            self._look()

    def _read(self, length: int) -> bytes:
        got = b""
        while len(got) < length:
            with suppress(TimeoutError):
                if not (more := self._forked.line.recv(length - len(got))):
                    raise EOFError
                got += more
            self._look()
        return got

    def _look(self) -> None:
        if time.monotonic() > self._clock_limit or self._used() > self._limit:
            self._end()
            raise DecoderEnded("time")

    def _used(self) -> float:
        """Seconds of processor time that the worker has used."""
        try:
            # The clock of another process, as clock_getcpuclockid makes it.
            return time.clock_gettime(~self._forked.pid << 3 | 2)
        except OSError as error:
            raise ProcessLookupError from error

    def _cap(self, seconds: float) -> None:
        with suppress(OSError):
            _, most = resource.prlimit(self._forked.pid, resource.RLIMIT_CPU)
            resource.prlimit(self._forked.pid, resource.RLIMIT_CPU, (int(seconds) + 1, most))


def _reason(status: int | None) -> Reason:
    """Why a worker ended of itself."""
    if status is None or not os.WIFSIGNALED(status):
        return "crash"
    ended = os.WTERMSIG(status)
    if ended == signal.SIGXCPU:
        return "time"
    return "memory" if ended == signal.SIGKILL else "crash"  # the system's own way where memory ran out

"""The template and its workers as the service sees them: started, asked, and ended in time.

A worker is asked one question at a time, and has only so long for the answer: seconds of a core, which the
system counts (`RLIMIT_CPU`), and some times as many by the clock.
"""

import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl
from typing import Final, Literal

import numpy as np
from pydantic import ValidationError

from registry.bundle.pictures.rule import PictureRule
from registry.confined import ENVIRONMENT, import_roots, kept_variables
from serving.decoding.messages import ANSWER, LONGEST_PACKET, QUESTION, DecodedPicture, Pixels, Refused
from serving.decoding.worker import REPLY, REQUEST

PROGRAM: Final = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "from serving.decoding.worker import main; main()"
)
"""What the template runs: `site` is not imported, and so only what is named here is found."""

_PACKAGES: Final = (
    "serving",
    "registry",
    "numpy",
    "PIL",
    "pydantic",
    "typing_extensions",
    "pydicom",
    "pi_heif",
    "_pi_heif",
    "pyseccomp",
)

# One heap, and large blocks go back to the system when they are let go of.
_MEMORY: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "4194304",
}

_PATIENCE: Final = 30.0  # seconds; forking takes some thousandths, and starting less than one

WALL: Final = 4
"""How many times as long the clock may run: others want the cores too."""

Reason = Literal["time", "memory", "crash"]
"""Why a worker ended with a picture: it took too long, the system had no memory for it, or anything else."""


class NoTemplateError(OSError):
    """The template cannot be started, does not answer, or cannot fork."""


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
        pid: its id.
        questions: how many it was asked.
    """

    def __init__(
        self, template: "Template", control: socket.socket, pid: int, line: socket.socket, shared: mmap.mmap
    ) -> None:
        """Takes a worker that was forked; see `Template.fork`."""
        self._template, self._control, self.pid = template, control, pid
        self._line, self._shared = line, np.frombuffer(shared, np.uint8)
        self._ended: tuple[int | None] | None = None
        self._ending = threading.Lock()
        self.questions = 0

    @property
    def lives(self) -> bool:
        """Whether it waits for a question: it has neither ended nor said anything unasked."""
        self._line.settimeout(0)
        try:
            self._line.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def ask(
        self, content: bytes, rule: PictureRule, seconds: float, frame: int | None = None
    ) -> DecodedPicture | Refused:
        """Asks it to decode a picture; afterwards nothing of it is left in the shared memory.

        Args:
            content: the picture.
            rule: by which it is decoded.
            seconds: of one core that the answer may take, to the next whole one; `WALL` times as many by the
                clock.
            frame: which of several in the file.

        Raises:
            DecoderEnded: there is no answer, and there will be none.
        """
        self.questions += 1
        self._line.settimeout(WALL * seconds)
        try:
            self._limit(seconds)
            self._shared[: len(content)] = np.frombuffer(content, np.uint8)
            self._line.send(QUESTION.pack(len(content), frame or 0) + rule.model_dump_json().encode())
            answer = ANSWER.validate_json(self._line.recv(LONGEST_PACKET) or self._gone())
        except TimeoutError as error:
            self.kill()
            raise DecoderEnded("time") from error
        except OSError as error:
            raise DecoderEnded(_reason(self.kill())) from error
        except ValidationError as error:
            self.kill()
            raise DecoderEnded("crash") from error
        used = 3 * rule.size**2
        pixels = self._shared[:used].reshape(rule.size, rule.size, 3).copy()
        self._shared[: max(used, len(content))] = 0
        return DecodedPicture(answer, pixels) if isinstance(answer, Pixels) else answer

    def kill(self) -> int | None:
        """Ends the worker, also while it is asked; returns how it ended, where that is known."""
        with self._ending:
            if self._ended is None:
                self._ended = (self._template.end(self._control, self.pid),)
            return self._ended[0]

    def close(self) -> None:
        """Ends the worker, which must be idle."""
        self.kill()
        self._line.close()

    def _limit(self, seconds: float) -> None:
        """Has the system end it after these seconds of processor time; where it cannot, the clock does."""
        with suppress(OSError):
            # The clock of another process, as clock_getcpuclockid makes it.
            used = time.clock_gettime(~self.pid << 3 | 2)
            _, most = resource.prlimit(self.pid, resource.RLIMIT_CPU)
            resource.prlimit(self.pid, resource.RLIMIT_CPU, (int(used + seconds) + 1, most))

    def _gone(self) -> bytes:
        raise ConnectionResetError


def _reason(status: int | None) -> Reason:
    """Why a worker ended of itself."""
    if status is None or not os.WIFSIGNALED(status):
        return "crash"
    ended = os.WTERMSIG(status)
    if ended == signal.SIGXCPU:
        return "time"
    return "memory" if ended == signal.SIGKILL else "crash"  # the system's own way where memory ran out


class Template:
    """The process that workers are forked from; it is started again where it ended."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._missing: str | None = None

    def start(self) -> None:
        """Starts the process, and does not wait for it.

        Raises:
            NoTemplateError: the system does not let it.
        """
        with self._lock:
            self._start()

    def ready(self) -> str:
        """Waits until workers can be forked; says why they have no filter of system calls, or nothing.

        Raises:
            NoTemplateError: the process does not start.
        """
        with self._lock:
            self._hear()
            return self._missing or ""

    def fork(self, memory: int, shared: int) -> Decoder:
        """Has a worker forked.

        Args:
            memory: bytes that decoding may take in it.
            shared: bytes of the memory that a picture and its pixels are put into.

        Raises:
            NoTemplateError: there is no memory, or no process left; or the template ended.
        """
        opened: list[int] = []
        ours: socket.socket | None = None
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            opened.append(its.detach())
            opened.append(os.memfd_create("pixels", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
            os.ftruncate(opened[1], shared)
            fcntl(opened[1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            pixels = mmap.mmap(opened[1], shared, mmap.MAP_SHARED)
            with self._lock:
                control = self._hear()
                pid = self._ask(control, memory, opened)
            if pid <= 0:
                raise NoTemplateError(-pid, f"no process can be forked ({os.strerror(-pid)})")
            return Decoder(self, control, pid, ours, pixels)
        except OSError as error:
            if ours is not None:
                ours.close()
            if isinstance(error, NoTemplateError):
                raise
            raise NoTemplateError(error.errno, f"no process can be forked ({error})") from error
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def end(self, control: socket.socket, pid: int) -> int | None:
        """Ends a worker, if it has not ended yet; returns how, as `waitpid` tells it, where that is known."""
        with self._lock, suppress(NoTemplateError):
            if control is self._control:  # else it ended with its template
                return self._ask(control, -pid, [])
        return None

    def close(self) -> None:
        """Ends the process, and with it all workers."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        if self._control is not None:
            return
        roots: list[str] = []
        for package in _PACKAGES:
            with suppress(ModuleNotFoundError):  # pydicom, pi_heif and pyseccomp need not be there
                roots += import_roots([package])
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(_PATIENCE)
            with its:
                command = [
                    sys.executable,
                    "-I",
                    "-S",
                    "-B",
                    "-c",
                    PROGRAM,
                    json.dumps(roots),
                    str(its.fileno()),
                ]
                # A session of its own: what a terminal sends to the service's processes is not meant for it.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={**ENVIRONMENT, **_MEMORY, **kept_variables()},
                    pass_fds=(its.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            raise NoTemplateError(error.errno, f"no process can be started ({error})") from error
        self._control, self._missing = ours, None

    def _hear(self) -> socket.socket:
        self._start()
        assert self._control is not None
        if self._missing is None:
            heard = b""
            with suppress(OSError):
                heard = self._control.recv(LONGEST_PACKET)
            if not heard:
                self._stop()
                raise NoTemplateError(0, "the process that decoders are forked from does not start")
            self._missing = heard[4:].decode("utf-8", "replace")
        return self._control

    def _ask(self, control: socket.socket, request: int, descriptors: list[int]) -> int:
        try:
            socket.send_fds(control, [REQUEST.pack(request)], descriptors)
            reply: int = REPLY.unpack(control.recv(REPLY.size))[0]
        except (OSError, struct.error) as error:
            self._stop()
            raise NoTemplateError(0, f"the process that decoders are forked from ended ({error})") from error
        return reply

    def _stop(self) -> None:
        process, control, self._process, self._control = self._process, self._control, None, None
        if control is not None:
            control.close()
        if process is not None:
            with process:
                try:
                    process.wait(2)
                except subprocess.TimeoutExpired:
                    process.kill()

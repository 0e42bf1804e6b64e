"""The template process as the service sees it: starts it, and has workers forked and ended."""

import json
import logging
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl
from typing import Final

from registry.confined import ENVIRONMENT, import_roots, kept_variables
from serving.decoding.template import END, FORK, LONGEST, TOLD
from serving.decoding.wire import SHARED

log = logging.getLogger("dermfed.serve")

PROGRAM: Final = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "from serving.decoding.template import main; main()"
)
"""What the process runs: `site` is not imported, and so only what is named here is found."""

_PACKAGES: Final = ("serving", "registry", "numpy", "PIL", "pydantic", "typing_extensions")
_FURTHER: Final = ("pydicom", "pyseccomp")

# One heap, and large blocks go back to the system when they are let go of.
_MEMORY: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "4194304",
}

_PATIENCE: Final = 30.0  # seconds; forking takes some thousandths, and starting less than one


class NoTemplateError(OSError):
    """The template cannot be started, does not answer, or cannot fork."""


@dataclass(frozen=True)
class Forked:
    """A worker that was forked.

    Attributes:
        pid: its id.
        line: the socket to it.
        pixels: the memory that it puts pixels into.
        start: of which start of the template it is.
    """

    pid: int
    line: socket.socket
    pixels: mmap.mmap
    start: int


class Template:
    """The process that workers are forked from; it is started again where it ended."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._starts = 0
        self._ready = False
        self.no_filter = ""

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
            return self.no_filter

    def fork(self, memory: int) -> Forked:
        """Has a worker forked.

        Args:
            memory: bytes that decoding may take in it.

        Raises:
            NoTemplateError: there is no memory, or no process left; or the template ended.
        """
        try:
            return self._fork(memory)
        except NoTemplateError:
            raise
        except OSError as error:  # no file or no memory is left for what both share
            raise NoTemplateError(error.errno, f"no process can be forked ({error})") from error

    def _fork(self, memory: int) -> Forked:
        ours, its = socket.socketpair()
        shared = -1
        try:
            shared = os.memfd_create("pixels", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(shared, SHARED)
            fcntl(shared, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
            pixels = mmap.mmap(shared, SHARED, mmap.MAP_SHARED)
            with self._lock:
                told = self._ask(FORK.pack(b"fork", memory), [its.fileno(), shared])
                start = self._starts
            if told <= 0:
                raise NoTemplateError(-told, f"no process can be forked ({os.strerror(-told)})")
        except OSError:
            ours.close()
            raise
        finally:
            its.close()
            if shared >= 0:
                os.close(shared)
        return Forked(told, ours, pixels, start)

    def end(self, worker: Forked) -> int | None:
        """Ends a worker, if it has not ended yet; returns how, as `waitpid` tells it, where that is known."""
        with self._lock:
            if self._control is None or worker.start != self._starts:
                return None  # it ended with its template
            with suppress(NoTemplateError):
                return self._ask(END.pack(b"end ", worker.pid), [])
        return None

    def close(self) -> None:
        """Ends the process, and with it all workers."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        if self._control is not None:
            return
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise NoTemplateError(error.errno, f"no process can be started ({error})") from error
        ours.settimeout(_PATIENCE)
        roots = [*import_roots(_PACKAGES), *_further()]
        command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, json.dumps(roots), str(its.fileno())]
        try:
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
            ours.close()
            raise NoTemplateError(error.errno, f"no process can be started ({error})") from error
        finally:
            its.close()
        self._control, self._ready = ours, False
        self._starts += 1

    def _hear(self) -> socket.socket:
        self._start()
        assert self._control is not None
        if not self._ready:
            try:
                heard = self._control.recv(LONGEST)
            except OSError:
                heard = b""
            if not heard:
                self._stop()
                raise NoTemplateError(0, "the process that decoders are forked from does not start")
            self._ready, self.no_filter = True, heard[4:].decode("utf-8", "replace")
        return self._control

    def _ask(self, message: bytes, descriptors: list[int]) -> int:
        control = self._hear()
        try:
            socket.send_fds(control, [message], descriptors)
            told: int = TOLD.unpack(control.recv(TOLD.size))[0]
        except (OSError, struct.error) as error:
            self._stop()
            raise NoTemplateError(0, f"the process that decoders are forked from ended ({error})") from error
        return told

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


def _further() -> list[str]:
    """The folders of packages that need not be there."""
    roots: list[str] = []
    for package in _FURTHER:
        with suppress(ModuleNotFoundError):
            roots += import_roots([package])
    return roots

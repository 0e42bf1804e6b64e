"""Opens the port, and keeps as many workers on it as were asked for; ends with the last of them.

A worker that dies is started again: at once if it lived for a while, else after a pause that doubles each
time. SIGTERM and SIGINT end the service: each worker is told, answers what was asked of it, and is killed if
it does not end. A second signal shortens that. The workers hold a pipe whose other end is here, so that none
of them outlives this process, however it ends.
"""

import argparse
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from serving.transport.listening import CannotListenError, close, listen

COUNTS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which all workers count; it is emptied by whoever starts them."""

LATEST: Final = 65.0
"""When workers that were told to end are killed; a little later than they end themselves. Seconds."""

STEADY: Final = 10.0
"""A worker that lived so long is started again at once; seconds."""

SHORTEST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""How long the pause is before a worker that died early is started again; seconds."""

WORKER: Final = (sys.executable, "-P", "-m", "serving.worker")
"""What a worker is; `-P`, since nothing is to be loaded from the folder that it is started in."""


@dataclass
class Place:
    """A worker, or the wait for one.

    Attributes:
        process: the worker; None while there is none.
        pipe: its end of our pipe closes when this does.
        began: when it was started; monotonic seconds.
        start_at: when the next is started.
        pause: how long the last pause was; seconds.
    """

    process: subprocess.Popen[bytes] | None = None
    pipe: int = -1
    began: float = 0.0
    start_at: float = 0.0
    pause: float = 0.0


@dataclass
class Supervisor:
    """Keeps workers on sockets until a signal ends it.

    Attributes:
        sockets: which the workers accept from.
        workers: how many there are.
        command: what starts one; the numbers of its pipe and of the sockets are put behind it.
    """

    sockets: Sequence[socket.socket]
    workers: int
    command: Sequence[str] = WORKER
    _places: list[Place] = field(default_factory=list)
    _signals: int = 0
    _ends_at: float | None = None

    def run(self) -> int:
        """Keeps the workers until it is told to end; the exit code is 1 where one had to be killed."""
        self._places = [Place() for _ in range(self.workers)]
        woken, wakes = socket.socketpair()
        with woken, wakes:
            wakes.setblocking(False)
            woken.setblocking(False)
            signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, lambda *_: None)
            killed = False
            while self._ends_at is None or any(place.process for place in self._places):
                self._reap()
                now = time.monotonic()
                if self._ends_at is None:
                    self._start_due(now)
                elif now > self._ends_at and not killed:
                    killed = True
                    self._send(signal.SIGKILL)
                    say("workers that did not end were killed")
                if self._ends_at is None or any(place.process for place in self._places):
                    select.select([woken], [], [], self._wait(now))
                with contextlib.suppress(BlockingIOError):
                    self._received(woken.recv(4096))
            signal.set_wakeup_fd(-1)
        return int(killed)

    def _wait(self, now: float) -> float:
        """Until when nothing is to be done, unless a signal comes; seconds."""
        if self._ends_at is not None:
            return max(0.0, self._ends_at - now) if now <= self._ends_at else 1.0
        due = [place.start_at for place in self._places if place.process is None]
        return max(0.0, min(due) - now) if due else 3600.0

    def _start_due(self, now: float) -> None:
        for place in self._places:
            if place.process is None and place.start_at <= now:
                theirs, place.pipe = os.pipe()
                numbers = [theirs, *(one.fileno() for one in self.sockets)]
                try:
                    place.process = subprocess.Popen(
                        [*self.command, *map(str, numbers)], pass_fds=numbers, process_group=0
                    )
                except OSError as error:
                    os.close(place.pipe)
                    self._again(place, now, f"a worker could not be started ({error.strerror})")
                finally:
                    os.close(theirs)
                place.began = now

    def _reap(self) -> None:
        """Notes who has ended; orphans of a worker too, where this is the first process of a container."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for place in self._places:
                if place.process is not None and place.process.pid == pid:
                    place.process.returncode = code = os.waitstatus_to_exitcode(status)
                    place.process = None
                    if place.pipe >= 0:
                        os.close(place.pipe)
                        place.pipe = -1
                    if self._ends_at is None:
                        self._again(place, time.monotonic(), f"worker {pid} ended ({reason(code)})")

    def _again(self, place: Place, now: float, why: str) -> None:
        steady = now - place.began >= STEADY
        place.pause = 0.0 if steady else min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * place.pause))
        place.start_at = now + place.pause
        say(f"{why}; another one is started " + (f"in {place.pause:g} s" if place.pause else "now"))

    def _received(self, numbers: bytes) -> None:
        for number in numbers:
            if number not in (signal.SIGTERM, signal.SIGINT):
                continue
            self._signals += 1
            if self._signals == 1:
                self._begin_to_end()
            elif self._signals == 2:
                self._send(signal.SIGTERM)

    def _begin_to_end(self) -> None:
        self._ends_at = time.monotonic() + LATEST
        for place in self._places:
            if place.pipe >= 0:
                os.close(place.pipe)
                place.pipe = -1
        close(self.sockets)  # the last worker to close them closes the port

    def _send(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(place.process.pid, number)


def reason(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def say(what: str) -> None:
    """A line in the log, as the workers write theirs."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now} [WARNING] [{os.getpid()}] {what}", file=sys.stderr, flush=True)


def empty(folder: Path) -> None:
    """Makes the folder, and removes what the workers of a service before this have counted there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.db"):
        path.unlink(missing_ok=True)


def main() -> None:
    """Run the service; `dermfed-serve` becomes this once it has looked whether it can."""
    parser = argparse.ArgumentParser(prog="serving.supervisor")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    given = parser.parse_args()
    try:
        sockets = listen(given.host, given.port)
    except CannotListenError as error:
        print(f"dermfed-serve: {error}", file=sys.stderr)
        sys.exit(2)
    # Only now: a second service that finds the port taken must not empty the folder of the first.
    if folder := os.environ.get(COUNTS):
        empty(Path(folder))
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # for whatever a worker loads, and in whatever order
    sys.exit(Supervisor(sockets, given.workers).run())


if __name__ == "__main__":
    main()

"""FLARE's own process of a node, in the foreground: started, started again when it ends, stopped with us."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from clients.federation.echo import MARK, Echo
from clients.federation.kit import Kit

PAUSE = 5.0  # seconds before a process that ended by itself is started again
GRACE = 10.0  # seconds that it may take to end when it is told to
SERVER_PROGRAM = "nvflare.private.fed.app.server.server_train"
CLIENT_PROGRAM = "nvflare.private.fed.app.client.client_train"


def command(kit: Kit) -> list[str]:
    """The command that takes part as this kit's owner."""
    organisation = f"org={kit.facts.organisation}"
    start = [sys.executable, "-u", "-m"]
    where = ["-m", str(kit.path)]
    common = ["secure_train=true", organisation, "config_folder=config"]
    if kit.facts.role == "server":
        return [*start, SERVER_PROGRAM, *where, "-s", "fed_server.json", "--set", *common]
    uid = f"uid={kit.facts.identity}"
    return [*start, CLIENT_PROGRAM, *where, "-s", "fed_client.json", "--set", *common, uid]


def environment() -> dict[str, str]:
    """Ours, for what our own processes start: nothing of it is written to where others can read."""
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "4"),
    }


class NodeProcess:
    """Keeps a node's FLARE process running until it is told to stop.

    Args:
        kit: whose.
        say: takes one line for whoever watches the node.
    """

    def __init__(self, kit: Kit, say: Callable[[str], None] = print) -> None:
        self._kit = kit
        self._echo = Echo(kit.log, say)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Run until a signal (Ctrl-C, SIGTERM) stops it; returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self._echo.start()
        while not self._stopping:
            with self._kit.log.open("ab") as log:
                # A group of its own, so that the processes of its jobs can be ended with it.
                self._process = subprocess.Popen(
                    command(self._kit),
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                code = self._process.wait()
            end_group(self._process.pid)
            if not self._stopping:
                note(self._kit.log, f"the process ended with {code}; it starts again in {PAUSE:g} seconds")
                self._pause()
        self._echo.close()
        return 0

    def _pause(self) -> None:
        until = time.monotonic() + PAUSE
        while time.monotonic() < until and not self._stopping:
            time.sleep(0.1)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._process is not None:
            end_group(self._process.pid)


def end_group(group: int) -> None:
    """End a process and all that it started: kindly first, then for good."""
    try:
        os.killpg(group, signal.SIGTERM)
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.1)
            with suppress(ChildProcessError):
                os.waitpid(group, os.WNOHANG)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def note(log: Path, text: str) -> None:
    """Add a line of our own to a node's log."""
    with log.open("a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}{MARK}{text}\n")

"""The supervisor of a node's FLARE process: starts it, restarts it when it ends, stops it on a signal."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from clients.federation.errors import KitError
from clients.federation.kit import OTHERS, Kit
from clients.federation.logs import NodeLog, prune
from clients.federation.site_policy import SYNC_SECONDS

LOOK_EVERY = 0.5  # seconds


def end_with_parent(parent: int | None = None) -> None:
    """Watch the parent, and end this process at once when the parent ends.

    FLARE lets a job's process finish what it is doing, which may be an hour of training; meanwhile the node
    may have been started again, and two processes would write one client's states. A run is crash-exact, so
    an end at any instant loses nothing but time.

    Args:
        parent: its number, where it may have ended already; by default the present parent's.
    """
    eldest = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == eldest:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


PAUSE = 5.0  # seconds before a process that ended by itself is started again
GRACE = 10.0  # seconds that it may take to end when it is signalled
ENDING = 20  # seconds that a finished job waits for hospitals to say that their part of it has ended
KIT_VARIABLE = "DERMFED_KIT"  # in the environment of all that a node starts
GONE = 10.0  # seconds that a killed process may take to be gone
SERVER_PROGRAM = "nvflare.private.fed.app.server.server_train"
CLIENT_PROGRAM = "nvflare.private.fed.app.client.client_train"


def command(kit: Kit) -> list[str]:
    """The command line of FLARE's program for this kit's owner."""
    organisation = f"org={kit.facts.organisation}"
    start = [sys.executable, "-u", "-m", "clients.federation.flare", str(os.getpid())]
    where = ["-m", str(kit.path)]
    common = ["secure_train=true", organisation, "config_folder=config"]
    if kit.facts.role == "server":
        return [*start, SERVER_PROGRAM, *where, "-s", "fed_server.json", "--set", *common]
    uid = f"uid={kit.facts.identity}"
    return [*start, CLIENT_PROGRAM, *where, "-s", "fed_client.json", "--set", *common, uid]


def environment(kit: Kit) -> dict[str, str]:
    """The environment of this kit's processes; file permissions keep what they write private."""
    return {
        **os.environ,
        KIT_VARIABLE: f"{kit.path}",
        "PYTHONUNBUFFERED": "1",
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": str(ENDING),
        "NVFLARE_MAX_RUNNER_SYNC_TIMEOUT": str(SYNC_SECONDS),
        # Replies of FLARE's own to the coordinator then name the kind of an error and none of its text.
        **({"NVFLARE_SECURE_LOGGING": "true"} if kit.facts.role == "hospital" else {}),
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "4"),
    }


class NodeProcess:
    """Keeps a node's FLARE process running until a signal stops it.

    Args:
        kit: whose.
        say: takes one line for the node's operator.
    """

    def __init__(self, kit: Kit, say: Callable[[str], None] = print) -> None:
        self._kit = kit
        self._log = NodeLog(kit.log, say)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Run until a signal (Ctrl-C, SIGTERM) stops it; returns the exit code.

        Raises:
            KitError: the kit is in use.
        """
        os.umask(OTHERS)
        with in_use(self._kit):
            return self._run()

    def _run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self._end_stale()
        while not self._stopping:
            prune(self._kit)
            # A group of its own, so that the processes of its jobs can be ended with it.
            self._process = subprocess.Popen(
                command(self._kit),
                env=environment(self._kit),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            assert self._process.stdout is not None, "a pipe"
            printed = self._log.follow(self._process.stdout)
            code = self._process.wait()
            end_group(self._process.pid)
            if not self._stopping:
                self._log.note(f"the process ended with {code}; it starts again in {PAUSE:g} seconds")
                self._pause()
            self._end_stale()
            printed.join()
        self._log.close()
        return 0

    def _end_stale(self) -> None:
        count = end_stale_processes(self._kit.path)
        if count:
            self._log.note(f"{count} processes of a job had outlived the node; they were ended")

    def _pause(self) -> None:
        until = time.monotonic() + PAUSE
        while time.monotonic() < until and not self._stopping:
            time.sleep(0.1)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._process is not None:
            end_group(self._process.pid)


def end_stale_processes(kit: Path) -> int:
    """Kill all processes that were started for this kit; returns how many there were.

    FLARE starts each job's process in a session of its own. One whose node was killed before the job began
    never hears of it, and asks for the node for ever. They may end at any instant: a run is crash-exact.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(KIT_VARIABLE) == f"{kit}":
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=GONE)
    return len(found)


def end_group(group: int) -> None:
    """End a process group: SIGTERM first, then SIGKILL."""
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


@contextmanager
def in_use(kit: Kit) -> Iterator[None]:
    """Lock a kit, so that it is not started twice.

    Raises:
        KitError: it is locked already.
    """
    with (kit.private / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise KitError(
                f"{kit.path} is in use by another `dermfed-node start`; stop that one first"
            ) from error
        yield

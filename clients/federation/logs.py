"""A node's log: its marked lines on the console, a new file where it is full, and folders of ended jobs."""

import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # FLARE's processes format their lines by this module, and import no more for it
    from clients.federation.kit import Kit

FULL = 20_000_000  # bytes of a log that begins anew
KEPT = 5  # earlier logs, `node.log.1` the newest
OWN = 0o600  # what of a log that was put aside its owner alone may do
POLL = 0.5  # seconds between looks at the log
MARK = " dermfed: "  # in each line that is of interest to whoever watches the node


class WithoutTraces(logging.Formatter):
    """Formats a record without the trace of its error, which another handler writes."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = copy(record)
        line.exc_info = line.exc_text = line.stack_info = None
        return super().format(line)


class ConsoleLog:
    """Prints new lines of a log that contain the mark, from a thread, and rotates the log.

    The processes write to the log themselves, and not to us: they keep running when we are killed.

    Args:
        log: of the node.
        say: takes one line.
        full: bytes after which the log is rotated.
    """

    def __init__(self, log: Path, say: Callable[[str], None], full: int = FULL) -> None:
        self._log = log
        self._say = say
        self._full = full
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
        self._turn_over()

    def _turn_over(self) -> None:
        """Empty a full log, once all of it was printed.

        The processes hold the file open to append to it: it is copied and emptied, since they would not write
        to a new one. A line written between the two is lost.
        """
        if self._offset < self._full or self._log.stat().st_size != self._offset:
            return
        for number in range(KEPT - 1, 0, -1):
            older = self._log.with_name(f"{self._log.name}.{number}")
            if older.exists():
                older.replace(self._log.with_name(f"{self._log.name}.{number + 1}"))
        aside = self._log.with_name(f"{self._log.name}.1")
        shutil.copyfile(self._log, aside)
        aside.chmod(OWN)
        os.truncate(self._log, 0)
        self._offset = 0


FOLDERS = 10  # folders of jobs, and jobs in the coordinator's store
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # what FLARE calls a job
UNDER_WAY = ("RUNNING", "DISPATCHED")


def prune(kit: "Kit") -> None:
    """Remove folders of old and dead jobs from a kit, while FLARE's process does not run.

    FLARE removes nothing: a hospital keeps a folder for every job, and so does a coordinator for one that was
    killed with it, which FLARE calls RUNNING for ever. States of models are elsewhere, in `private/runs`.
    """
    prune_folders(kit)
    stored = job_folders(kit.private / "jobs")
    dead = [folder for folder in stored if state(folder) in UNDER_WAY]
    remove(dead)
    remove([folder for folder in stored if folder not in dead][:-FOLDERS])


def prune_folders(kit: "Kit") -> None:
    """Remove the folders of all jobs but the newest; the one that runs is among these."""
    remove(job_folders(kit.path)[:-FOLDERS])


def job_folders(place: Path) -> list[Path]:
    """The job folders in `place`, the oldest first."""
    if not place.is_dir():
        return []
    found = [path for path in place.iterdir() if ID.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def state(stored: Path) -> str:
    """FLARE's state of a stored job; empty where it cannot be read."""
    try:
        return str(json.loads((stored / "meta").read_text()).get("status", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def remove(folders: Sequence[Path]) -> None:
    """Remove folders with their content."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

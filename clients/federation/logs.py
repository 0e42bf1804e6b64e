"""A node's log: its marked lines on the console, a new file where it is full, and folders of ended jobs."""

import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:  # FLARE's processes format their lines by this module, and import no more for it
    from clients.federation.kit import Kit

FULL = 20_000_000  # bytes of a log that begins anew
OWN = 0o600  # what of a log its owner alone may do
KEPT = 5  # earlier logs, `node.log.1` the newest
MARK = " dermfed: "  # in each line that is of interest to whoever watches the node


class WithoutTraces(logging.Formatter):
    """Formats a record without the trace of its error, which another handler writes."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = copy(record)
        line.exc_info = line.exc_text = line.stack_info = None
        return super().format(line)


class NodeLog:
    """Writes what a node's processes print to its log, a new file where that is full, and says marked lines.

    Args:
        path: of the log.
        say: takes one line for the node's operator.
        full: bytes after which a new file begins.
    """

    def __init__(self, path: Path, say: Callable[[str], None], full: int = FULL) -> None:
        path.touch(OWN)
        self._file = RotatingFileHandler(path, maxBytes=full, backupCount=KEPT, encoding="utf-8", delay=True)
        self._say = say
        self.close = self._file.close

    def write(self, line: str) -> None:
        """Write one line; it is said, too, as long as there is a console."""
        self._file.handle(logging.makeLogRecord({"msg": line}))
        if MARK in line:
            with suppress(OSError, ValueError):  # else nothing would read what the processes print
                self._say(line)

    def note(self, text: str) -> None:
        """Write a marked line of our own."""
        self.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}{MARK}{text}")

    def follow(self, output: IO[bytes]) -> threading.Thread:
        """Write, in a thread of its own, all lines that come until no process can write any more."""

        def read() -> None:
            with output:
                for line in output:
                    self.write(line.decode(errors="replace").rstrip("\r\n"))

        thread = threading.Thread(target=read, daemon=True, name="log")
        thread.start()
        return thread


FOLDERS = 10  # folders of jobs, and jobs in the coordinator's store
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # what FLARE calls a job
UNDER_WAY = ("RUNNING", "DISPATCHED")


def prune(kit: "Kit") -> None:
    """Remove folders of old and dead jobs from a kit, while FLARE's process does not run.

    FLARE removes nothing: a hospital keeps a folder for every job, and so does a coordinator for one that was
    killed with it, which FLARE calls RUNNING for ever. States of models are elsewhere, in `private/runs`.
    """
    prune_folders(kit.path)
    for folder in _job_folders(kit.private / "jobs"):
        with suppress(OSError, ValueError, AttributeError):  # what cannot be read is not judged
            if json.loads((folder / "meta").read_text()).get("status") in UNDER_WAY:
                shutil.rmtree(folder, ignore_errors=True)
    prune_folders(kit.private / "jobs")


def prune_folders(place: Path) -> None:
    """Remove the folders of all jobs in `place` but the newest; the one that runs is among these."""
    for folder in _job_folders(place)[:-FOLDERS]:
        shutil.rmtree(folder, ignore_errors=True)


def _job_folders(place: Path) -> list[Path]:
    """The job folders in `place`, the oldest first."""
    found = [path for path in place.glob("*") if ID.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime)

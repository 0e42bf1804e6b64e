"""One file a day (UTC), `diagnoses-2026-01-31.jsonl`, to which all workers of a service append lines.

A line is written in one piece to the file's end, whole or not at all: what a full disk took half of is cut
off again. It is handed to the operating system before the answer is sent, so a worker that is killed loses
none; a power cut may take the last seconds. Keep the folder on a local disk: what writes waits for it.

Files that are past their retention are removed when the first line of a day is written, and only where there
are records of `LATER_DAYS` days on which they were past it already. A clock can be wrong: one that is 500
days ahead for a second must not cost a year of records.
"""

import errno
import fcntl
import logging
import os
import re
import threading
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Final

log = logging.getLogger("dermfed.serve")

LATER_DAYS: Final = 3
"""Of how many days past its retention there have to be records before a file is removed."""

NAME: Final = "diagnoses-{}.jsonl"
_NAME: Final = re.compile(r"diagnoses-(\d{4}-\d\d-\d\d)\.jsonl")


def path_of(folder: Path, day: date) -> Path:
    """The file of a day."""
    return folder / NAME.format(day.isoformat())


def days_in(folder: Path) -> list[date]:
    """The days of which a folder holds a file; none where there is no such folder."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError:
        return []  # not there yet, or to be reported when a line is written
    days = []
    for named in found:
        with suppress(ValueError):  # no day of the calendar, and no file of ours
            days += [date.fromisoformat(named[1])] if named else []
    return days


class DayFiles:
    """Appends lines to the file of their day, and removes files that are past their retention."""

    def __init__(self, folder: Path, retention_days: int) -> None:
        """Makes and removes nothing before the first line.

        Args:
            folder: where the files are.
            retention_days: for how many days after its own each is kept.
        """
        self.folder = folder
        self._retention = timedelta(days=retention_days)
        self._day: date | None = None
        self._file: int | None = None
        self._lock = threading.Lock()  # a lock on a file is of the whole process

    def append(self, line: bytes, day: date) -> None:
        """Appends a line to the file of a day.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if day != self._day:
                self._close()
            if self._file is None or os.fstat(self._file).st_nlink == 0:  # somebody has removed it
                self._close()
                self._file, self._day = self._open(day), day
            _write(self._file, line)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._close()

    def _open(self, day: date) -> int:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        opened = os.open(path_of(self.folder, day), flags, 0o600)
        self._remove_old(day)
        return opened

    def _remove_old(self, today: date) -> None:
        days = days_in(self.folder)
        newest = sorted(day for day in days if day <= today)[-LATER_DAYS:]
        for day in days:
            if len(newest) == LATER_DAYS and day + self._retention < newest[0]:
                path = path_of(self.folder, day)
                try:
                    path.unlink()
                    log.info(
                        "the records %s were kept for %d days and are removed", path, self._retention.days
                    )
                except FileNotFoundError:
                    pass  # another worker was first
                except OSError as error:
                    log.warning("the old records %s cannot be removed: %s", path, error.strerror)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = self._day = None


def _write(file: int, line: bytes) -> None:
    """Appends a line as a whole, below whatever a worker that was killed while writing has left."""
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(file, line) < len(line):
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)

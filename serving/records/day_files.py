"""One file a day (UTC), `diagnoses-2026-01-31.jsonl`, to which all workers of a service add lines.

A line is written in one piece to the file's end, whole or not at all: what a full disk took half of is cut
off again. It is handed to the operating system before the answer is sent, so a worker that is killed loses
none; a power cut may take the last seconds. Keep the folder on a local disk: what writes waits for it.
"""

import errno
import fcntl
import logging
import os
import re
import threading
from datetime import date, timedelta
from pathlib import Path
from typing import Final

log = logging.getLogger("dermfed.serve")

NAME: Final = "diagnoses-{}.jsonl"
_NAME: Final = re.compile(r"diagnoses-(\d{4}-\d\d-\d\d)\.jsonl")


class DayFiles:
    """The files of one folder."""

    def __init__(self, folder: Path, days: int) -> None:
        """Keeps a file for so many days after its own; nothing is made before the first line."""
        self.folder = folder
        self._days = days
        self._day: date | None = None
        self._file: int | None = None
        self._alone = threading.Lock()  # a lock on a file is of the whole process

    def append(self, line: bytes, day: date) -> None:
        """Adds a line to the file of a day.

        Raises:
            OSError: it cannot be written.
        """
        with self._alone:
            if day != self._day:
                self._close()
                self.remove_old(day)
            if self._file is None or os.fstat(self._file).st_nlink == 0:  # somebody has removed it
                self._close()
                self._file, self._day = self._open(day), day
            _write(self._file, line)

    def remove_old(self, today: date) -> None:
        """Removes files that are older than they are kept; one that cannot be removed is told to the log."""
        try:
            found = [(path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir()]
        except OSError:
            return  # not there yet, or to be told by whoever writes
        oldest = (today - timedelta(days=self._days)).isoformat()
        for path, named in found:
            if named and named[1] < oldest:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    log.warning("the old records %s cannot be removed: %s", path, error.strerror)

    def close(self) -> None:
        """Lets go of the file."""
        with self._alone:
            self._close()

    def _open(self, day: date) -> int:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.folder / NAME.format(day.isoformat()), flags, 0o600)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = self._day = None


def _write(file: int, line: bytes) -> None:
    """Adds a line as a whole, below whatever a worker that was killed in the middle of one has left."""
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

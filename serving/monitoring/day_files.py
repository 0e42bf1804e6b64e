"""One file a day (UTC), `diagnoses-2026-01-31.jsonl`, to which all workers of a service append lines.

A line is written in one piece to the file's end, whole or not at all: what a full disk took half of is cut
off again. It is handed to the operating system before the answer is sent, so a worker that is killed loses
none; a power cut may take the last seconds. Keep the folder on a local disk: what writes waits for it.

Files that are past their retention are removed once the clock has said so for long enough. A clock can be
wrong: one that is 500 days ahead for a second must not cost a year of records. So a day that the clock says
is a claim. It counts when the clock has said that day, or a later one, at every look for so long on the
monotonic clock: hours where the newest records are of about that time, days where they are much older (the
service has rested, or the clock is wrong: nobody can tell, and it is told as a health issue). Time is added
up over restarts, in `retention.json` beside the records, which is there only while something is to be
removed. Time in which the two clocks went apart, as in a jump, is not added. One process of those that share
a folder looks at it: the one that holds a lock on the folder.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

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
    """Appends lines to the file of their day."""

    def __init__(self, folder: Path) -> None:
        """Keeps the folder; nothing is made before the first line."""
        self.folder = folder
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
        return os.open(path_of(self.folder, day), flags, 0o600)

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


log = logging.getLogger("dermfed.serve")

STATE: Final = "retention.json"

LOOK_SECONDS: Final = 300.0
"""How often the files are looked at."""

LASTS_SECONDS: Final = 6 * 3600.0
"""How long the clock has to say a day before files are removed by it."""

DOUBTED_SECONDS: Final = 3 * 24 * 3600.0
"""How long it has to where the newest records are much older."""

NEAR: Final = timedelta(days=7)
"""How much older the newest records may be before the clock is doubted."""

_APART: Final = 120.0  # seconds by which the two clocks may differ between two looks


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Claim:
    """A day that the clock says it is, and for how long it has said so; seconds."""

    day: date
    seconds: float = 0.0

    @classmethod
    def read(cls, path: Path) -> "Claim | None":
        """The claim in a file; None where there is none that can be read."""
        try:
            found = json.loads(path.read_bytes())
            return cls(date.fromisoformat(found["day"]), max(0.0, float(found["seconds"])))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Puts the claim into a file, in the place of what was there.

        Raises:
            OSError: it cannot be written.
        """
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps({"day": self.day.isoformat(), "seconds": round(self.seconds, 1)}))
        new.replace(path)


class Retention:
    """Removes the old files of one folder, in a thread of its own.

    Attributes:
        doubt: why nothing is removed though the clock says it is time; empty where it is believed.
    """

    def __init__(
        self,
        folder: Path,
        days: int,
        now: Callable[[], datetime] = _now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keeps each file for so many days after its own; starts nothing yet.

        Args:
            folder: where the files are.
            days: for how many days each is kept.
            now: the clock.
            monotonic: a clock that nobody sets; seconds.
        """
        self.doubt = ""
        self._folder = folder
        self._days = timedelta(days=days)
        self._now, self._monotonic = now, monotonic
        self._last: tuple[datetime, float] | None = None  # both clocks at the last look
        self._claim: Claim | None = None
        self._holding: int | None = None  # the folder, locked
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()

    def close(self, patience: float) -> None:
        """Ends the thread, for which it waits so many seconds at most."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(patience)
            if self._thread.is_alive():
                return  # the disk hangs: the process ends without it
        self._let_go()

    def look(self) -> None:
        """Looks once: removes what is old for certain, and notes what is only said to be."""
        now, at = self._now(), self._monotonic()
        before, self._last = self._last, (now, at)
        if not self._hold():
            self._tell_doubt(now.date(), Claim.read(self._folder / STATE))
            return
        steady = before is not None and abs((now - before[0]).total_seconds() - (at - before[1])) <= _APART
        today = now.date()
        days = days_in(self._folder)
        if not self._overdue(days, today):
            self._forget()
            return
        claim = self._claim or Claim.read(self._folder / STATE)
        if claim is None or today < claim.day:
            claim = Claim(today)
        elif before is not None and steady:
            claim = Claim(claim.day, claim.seconds + at - before[1])
        if claim.seconds >= (DOUBTED_SECONDS if self._is_doubtful(days, claim.day) else LASTS_SECONDS):
            for day in self._overdue(days, claim.day):
                self._remove(path_of(self._folder, day))
            self._forget()
            return
        self._claim = claim
        self._tell_doubt(today, claim)
        try:
            claim.write(self._folder / STATE)
        except OSError as error:
            log.warning("how long the clock has said %s cannot be kept: %s", claim.day, error.strerror)

    def _overdue(self, days: list[date], today: date) -> list[date]:
        return [day for day in days if day < today - self._days]

    def _is_doubtful(self, days: list[date], today: date) -> bool:
        """Whether the newest records from before this day are much older than it."""
        newest = max((day for day in days if day < today), default=None)
        return newest is None or today - newest > NEAR

    def _tell_doubt(self, today: date, claim: Claim | None) -> None:
        days = days_in(self._folder)
        if claim is None or not self._overdue(days, claim.day) or not self._is_doubtful(days, claim.day):
            self.doubt = ""
            return
        newest = max(day for day in days if day < claim.day)
        self.doubt = (
            f"the clock says {today}, and the newest records before that in {self._folder} are of {newest}: "
            f"no old ones are removed until it has said so for {DOUBTED_SECONDS / 86400:.0f} days; set it if "
            "it is wrong"
        )

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
            log.info("the records %s were kept for %d days and are removed", path, self._days.days)
        except OSError as error:
            log.warning("the old records %s cannot be removed: %s", path, error.strerror)

    def _forget(self) -> None:
        self._claim, self.doubt = None, ""
        with contextlib.suppress(OSError):
            (self._folder / STATE).unlink(missing_ok=True)

    def _hold(self) -> bool:
        """Whether this process is the one that looks after the folder."""
        try:
            there = self._folder.stat()
            if self._holding is not None:
                held = os.fstat(self._holding)
                if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
                    return True
                self._let_go()
            self._holding = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            flock(self._holding, LOCK_EX | LOCK_NB)
        except OSError:  # not there yet, or another process looks
            self._let_go()
            return False
        return True

    def _let_go(self) -> None:
        if self._holding is not None:
            os.close(self._holding)
        self._holding = None

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                # Whatever it is, the thread has to live: the next look may succeed.
                log.exception("old records could not be looked for")
            if self._stop.wait(LOOK_SECONDS):
                return

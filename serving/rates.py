"""Rates that all workers of a service keep together: the generic cell rate algorithm over a shared file.

GCRA (ITU-T I.371, the virtual scheduling algorithm) needs one number for each name: the theoretical
arrival time, TAT. With T the time between two requests at the rate, and room for `burst` at once, a request
at time t conforms if

    max(TAT, t) + T <= t + burst · T

and then TAT becomes max(TAT, t) + T. This is a bucket of `burst` tokens that gets one every T.

Times are whole nanoseconds of the machine's monotonic clock, which all processes of a machine share. A name
whose TAT has passed is as if it had never been seen, so a table of fixed size serves any number of names:
one that comes takes the place of one whose time has passed. A name has eight places of its own choosing.
Where all of them are busy, it goes on from the one that is nearest to its end: too little is then admitted,
never a burst more.

The file is read and written as a file and not mapped: on a full disk that is an error that can be told, and
not the end of the process. Where it cannot be used, this process keeps a table of its own.
"""

import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

MINUTE: Final = 60_000_000_000
"""Nanoseconds."""

SETS: Final = 512
WAYS: Final = 8
_MARK: Final = 16
_PLACES: Final = struct.Struct("<" + f"{_MARK}sq" * WAYS)


@dataclass(frozen=True)
class Rate:
    """So many requests a minute, of which so many may come at once."""

    per_minute: int
    burst: int

    @property
    def apart(self) -> int:
        """T: the time between two requests at the rate; nanoseconds."""
        return -(-MINUTE // self.per_minute)

    @property
    def window(self) -> int:
        """How long a spent burst takes to come back; nanoseconds."""
        return self.burst * self.apart


@dataclass(frozen=True)
class Verdict:
    """What comes of asking.

    Attributes:
        admitted: whether the request may go on.
        remaining: how many more could follow at once.
        wait: until when one would be admitted again; nanoseconds, 0 for at once.
        restored: until when the whole burst is back; nanoseconds.
    """

    admitted: bool
    remaining: int
    wait: int
    restored: int


def conform(stored: int, now: int, rate: Rate) -> tuple[Verdict, int]:
    """What comes of asking at `now` where TAT is `stored`, and TAT after it.

    A TAT that this rate could not have led to (of another rate, or from before the machine was started) is
    cut to the farthest that it could.
    """
    arrival = min(max(stored, now), now + rate.window)
    after = arrival + rate.apart
    admitted = after <= now + rate.window
    if not admitted:
        after = arrival
    left = now + rate.window - after
    wait = max(0, rate.apart - left)
    return Verdict(admitted, left // rate.apart, wait, after - now), after


class _Table(Protocol):
    """Where the places are kept."""

    def locked(self, place: int) -> AbstractContextManager[object]:
        """Nobody else touches the set at this place meanwhile."""
        ...

    def read(self, place: int) -> bytes:
        """The set at this place."""
        ...

    def write(self, place: int, content: bytes) -> None:
        """Puts a set at this place."""
        ...

    def close(self) -> None:
        """Lets go of it."""
        ...


class _Memory:
    """A table of this process alone."""

    def __init__(self) -> None:
        self._content = bytearray(SETS * _PLACES.size)

    def locked(self, place: int) -> AbstractContextManager[object]:
        return nullcontext()

    def read(self, place: int) -> bytes:
        return bytes(self._content[place : place + _PLACES.size])

    def write(self, place: int, content: bytes) -> None:
        self._content[place : place + len(content)] = content

    def close(self) -> None:
        self._content = bytearray(SETS * _PLACES.size)


class _Shared:
    """A table in a file that other processes use too; each set is locked by itself."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid() or folder.st_mode & 0o022:
            raise PermissionError(f"others can write to {path.parent}")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def locked(self, place: int) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX, _PLACES.size, place)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _PLACES.size, place)

    def read(self, place: int) -> bytes:
        return os.pread(self._file, _PLACES.size, place).ljust(_PLACES.size, b"\0")

    def write(self, place: int, content: bytes) -> None:
        if os.pwrite(self._file, content, place) < len(content):
            raise OSError("the disk is full")

    def close(self) -> None:
        os.close(self._file)


class Rates:
    """How often each of any number of names has asked.

    Attributes:
        trouble: why the file cannot be used, so that each worker counts by itself; empty where it can.
    """

    def __init__(self, path: Path | None) -> None:
        """Keeps them in the file, which is made when somebody asks, or without one in this process alone."""
        self.trouble = ""
        self._alone = threading.Lock()  # a lock on a file is of the whole process
        self._path = path
        self._table: _Table | None = None

    def spend(self, name: str, rate: Rate) -> Verdict:
        """Counts one request of this name, if the rate admits it."""
        with self._alone:
            try:
                return self._spend(name, rate)
            except OSError as error:
                self._give_up(error)
                return self._spend(name, rate)

    def close(self) -> None:
        """Lets go of the file."""
        with self._alone:
            if self._table is not None:
                self._table.close()
            self._table = None

    def _spend(self, name: str, rate: Rate) -> Verdict:
        mark = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_MARK).digest()
        place = int.from_bytes(mark[:4]) % SETS * _PLACES.size
        if self._table is None:
            self._table = _Memory() if self._path is None else _Shared(self._path)
        with self._table.locked(place):
            now = time.monotonic_ns()
            places = list(_PLACES.unpack(self._table.read(place)))
            marks, times = places[::2], places[1::2]
            way = marks.index(mark) if mark in marks else times.index(min(times))
            verdict, after = conform(times[way], now, rate)
            if verdict.admitted:
                places[2 * way : 2 * way + 2] = mark, after
                self._table.write(place, _PLACES.pack(*places))
            return verdict

    def _give_up(self, error: OSError) -> None:
        self.trouble = (
            f"rates cannot be shared by the workers ({error.strerror or error}), so each counts by itself; "
            "let the service write to its home folder and start it again"
        )
        if self._table is not None:
            self._table.close()
        self._path, self._table = None, _Memory()

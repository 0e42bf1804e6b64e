"""A rate limiter that all workers share: the generic cell rate algorithm (GCRA) over a file.

GCRA (ITU-T I.371, the virtual scheduling algorithm) needs one number for each name: the theoretical
arrival time, TAT. With T the time between two requests at the rate, and room for `burst` at once, a request
at time t conforms if

    max(TAT, t) + T <= t + burst · T

and then TAT becomes max(TAT, t) + T. This is a bucket of `burst` tokens that gets one every T.

Times are whole nanoseconds of the machine's monotonic clock, which all processes of a machine share. A name
whose TAT has passed is as if it had never been seen, so a table of fixed size serves any number of names:
a new one replaces one whose time has passed. The table is set-associative: a name's hash chooses one of
`SETS` sets of `WAYS` entries. Where all of these are in use, the name goes on from the one that is nearest to
its end: too little is then admitted, never a burst more.

The file is read and written as a file and not mapped: on a full disk that is an error that can be reported,
and not the end of the process. Where it cannot be used, this process keeps a table of its own. So it does for
a request whose set another process holds for longer than `HELD_SECONDS`, as one does that was stopped.
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
"""A minute in nanoseconds."""

SETS: Final = 512
WAYS: Final = 8
HELD_SECONDS: Final = 0.02
"""How long a set may be held by another process before a request is counted without it."""

_FINGERPRINT: Final = 16
_SET: Final = struct.Struct("<" + f"{_FINGERPRINT}sq" * WAYS)


@dataclass(frozen=True)
class Rate:
    """A rate limit: requests per minute, and how many of them may come at once (the burst)."""

    per_minute: int
    burst: int

    @property
    def interval(self) -> int:
        """T: the time between two requests at the rate; nanoseconds."""
        return -(-MINUTE // self.per_minute)

    @property
    def window(self) -> int:
        """How long a spent burst takes to come back; nanoseconds."""
        return self.burst * self.interval


@dataclass(frozen=True)
class RateLimitResult:
    """Whether a request conforms to its rate, and what is left of the burst.

    Attributes:
        admitted: whether the request conforms.
        remaining: how many more could follow at once.
        wait: until when one would be admitted again; nanoseconds, 0 for at once.
        restored: until when the whole burst is back; nanoseconds.
    """

    admitted: bool
    remaining: int
    wait: int
    restored: int


def conform(stored: int, now: int, rate: Rate) -> tuple[RateLimitResult, int]:
    """Applies GCRA to a request at `now`: the result for a stored TAT, and the TAT after it.

    A TAT that this rate could not have led to (of another rate, or from before the machine was started) is
    cut to the farthest that it could.
    """
    arrival = min(max(stored, now), now + rate.window)
    after = arrival + rate.interval
    admitted = after <= now + rate.window
    if not admitted:
        after = arrival
    left = now + rate.window - after
    wait = max(0, rate.interval - left)
    return RateLimitResult(admitted, left // rate.interval, wait, after - now), after


class SetHeldError(OSError):
    """Another process holds a set for too long."""


class _Table(Protocol):
    """Where the sets of entries are stored, by their offset in bytes."""

    def locked(self, offset: int) -> AbstractContextManager[object]:
        """Holds the lock of the set at this offset."""
        ...

    def read(self, offset: int) -> bytes:
        """The bytes of the set at this offset."""
        ...

    def write(self, offset: int, content: bytes) -> None:
        """Stores a set at this offset."""
        ...

    def close(self) -> None:
        """Releases what the table holds open."""
        ...


class _MemoryTable:
    """A table in the memory of this process, for it alone."""

    def __init__(self) -> None:
        self._content = bytearray(SETS * _SET.size)

    def locked(self, offset: int) -> AbstractContextManager[object]:
        return nullcontext()

    def read(self, offset: int) -> bytes:
        return bytes(self._content[offset : offset + _SET.size])

    def write(self, offset: int, content: bytes) -> None:
        self._content[offset : offset + len(content)] = content

    def close(self) -> None:
        self._content = bytearray(SETS * _SET.size)


class _FileTable:
    """A table in a file that other processes use too; each set is locked by itself."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid() or folder.st_mode & 0o022:
            raise PermissionError(f"others can write to {path.parent}")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def locked(self, offset: int) -> Iterator[None]:
        until = time.monotonic() + HELD_SECONDS
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SET.size, offset)
                break
            except (BlockingIOError, PermissionError) as error:
                if time.monotonic() > until:
                    raise SetHeldError("another worker holds them") from error
                time.sleep(0.0005)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _SET.size, offset)

    def read(self, offset: int) -> bytes:
        return os.pread(self._file, _SET.size, offset).ljust(_SET.size, b"\0")

    def write(self, offset: int, content: bytes) -> None:
        if os.pwrite(self._file, content, offset) < len(content):
            raise OSError("the disk is full")

    def close(self) -> None:
        os.close(self._file)


class RateLimiter:
    """Rate limits any number of names, over a table that all workers share or one of this process.

    Attributes:
        health_issue: why the file cannot be used, so that each worker counts by itself; empty where it can.
    """

    def __init__(self, path: Path | None) -> None:
        """Uses the table in this file, made at the first request; None for a table of this process alone."""
        self.health_issue = ""
        self._lock = threading.Lock()  # a lock on a file is of the whole process
        self._path = path
        self._table: _Table | None = None
        self._own = _MemoryTable()
        self._own_lock = threading.Lock()

    @property
    def may_block(self) -> bool:
        """Whether counting may wait for a disk or another process, so that it belongs into a thread."""
        return self._path is not None

    def spend(self, name: str, rate: Rate) -> RateLimitResult:
        """Counts one request of this name, if the rate admits it."""
        if self._path is None:
            return self.spend_alone(name, rate)
        with self._lock:
            try:
                self._table = self._table or _FileTable(self._path)
                result = _spend(self._table, name, rate)
            except SetHeldError as error:
                self.health_issue = (
                    f"rates are not shared by the workers just now ({error}), so each counts by itself; if "
                    "it lasts, end the worker that was stopped"
                )
            except OSError as error:
                self._count_alone(error)
            else:
                self.health_issue = ""
                return result
        return self.spend_alone(name, rate)

    def spend_alone(self, name: str, rate: Rate) -> RateLimitResult:
        """Counts one request as far as this process alone knows; waits for nothing."""
        with self._own_lock:
            return _spend(self._own, name, rate)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._table is not None:
                self._table.close()
            self._table = None
            self._own = _MemoryTable()

    def _count_alone(self, error: OSError) -> None:
        self.health_issue = (
            f"rates cannot be shared by the workers ({error.strerror or error}), so each counts by itself; "
            "let the service write to its home folder and start it again"
        )
        if self._table is not None:
            self._table.close()
        self._path, self._table = None, None


def _spend(table: _Table, name: str, rate: Rate) -> RateLimitResult:
    fingerprint = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_FINGERPRINT).digest()
    offset = int.from_bytes(fingerprint[:4]) % SETS * _SET.size
    with table.locked(offset):
        now = time.monotonic_ns()
        entries = list(_SET.unpack(table.read(offset)))
        fingerprints, times = entries[::2], entries[1::2]
        way = fingerprints.index(fingerprint) if fingerprint in fingerprints else times.index(min(times))
        result, after = conform(times[way], now, rate)
        if result.admitted:
            entries[2 * way : 2 * way + 2] = fingerprint, after
            table.write(offset, _SET.pack(*entries))
        return result

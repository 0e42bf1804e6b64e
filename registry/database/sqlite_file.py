"""The file of a SQLite database: connections are to the file that is at its path, not to one that was there.

SQLite holds a file by its inode. One that was moved away, or that another was put in place of, is read on for
as long as the connection lives, and so is a log (`-wal`, `-shm`) that somebody removed. So before every
transaction the path is looked at, and connections to anything else are closed. A file that has been there is
never made anew: where it is missing, that is an error.

A log that a replaced file has left beside the new one is not the new one's, and SQLite would not notice. It
is written back into the file that it belongs to, wherever that lies now, and set aside under another name.

No descriptor of the file may be opened and closed here: that would end the locks which SQLite holds on it.
One that only names the file (`O_PATH`) keeps its inode from being given to another.
"""

import contextlib
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Final, Self

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from registry.errors import DatabaseLost

log = logging.getLogger("dermfed.registry")

LOGS: Final = ("-wal", "-shm")
"""The files that SQLite keeps beside a database in WAL mode."""

_TRIES: Final = 5
_NAME_ONLY: Final = getattr(os, "O_PATH", None)

Inode = tuple[int, int]


@dataclass(frozen=True)
class Marks:
    """What tells a database's files from others at the same paths; None for one that is not there.

    Attributes:
        file: device and inode of the database.
        content: its size in bytes, and when it was last changed; nanoseconds. A copy over it changes these.
        logs: device and inode of each of `LOGS`.
    """

    file: Inode | None
    content: tuple[int, int] | None
    logs: tuple[Inode | None, ...]

    @classmethod
    def of(cls, paths: tuple[Path, ...]) -> Self:
        """The marks of the files that are there now: at the database's path, and at its logs'."""
        found = [_status(path) for path in paths]
        inodes = [None if one is None else (one.st_dev, one.st_ino) for one in found]
        main = found[0]
        return cls(inodes[0], None if main is None else (main.st_size, main.st_mtime_ns), tuple(inodes[1:]))


class Connected(sqlite3.Connection):
    """A connection that knows at which generation of the file it was made."""

    generation = 0


class DatabaseFile:
    """The file at one path, as the connections of one engine see it; safe to share between threads.

    Attributes:
        path: the absolute path.
    """

    def __init__(
        self, path: Path, prepare: Callable[[sqlite3.Connection], None], timeout: float, *, create: bool
    ) -> None:
        """Keeps the path; nothing is opened.

        Args:
            path: where the file is, or is to be made.
            prepare: sets up a new connection, and reads something of the file.
            timeout: how long a connection waits for a lock; seconds.
            create: whether the first connection makes a file that is not there.
        """
        self.path = path
        self._paths = (path, *(Path(f"{path}{suffix}") for suffix in LOGS))
        self._prepare = prepare
        self._timeout = timeout
        self._create = create
        self._lock = threading.RLock()
        self._leaving = False
        self._generation = 0
        self._seen: Marks | None = None  # of the connections that are open
        self._left: Marks | None = None  # of those before, which may have left a log
        self._release_inode: Callable[[], object] = lambda: None

    def refresh(self, engine: Engine) -> None:
        """Closes the engine's connections where they are not to the files that are at the path now."""
        with self._lock:
            if self._seen is None or (now := Marks.of(self._paths)) == self._seen:
                return
            if now.file != self._seen.file:
                self._write_back(engine)
                log.warning(
                    "the database %s %s",
                    self.path,
                    "is not there any more" if now.file is None else "was replaced; the new file is read",
                )
            self._generation += 1  # those in use are closed when they are given back
            engine.dispose()
            self._left, self._seen = self._seen, None

    def connect(self) -> Connected:
        """A connection to the file that is at the path.

        Raises:
            DatabaseLost: there was a file, and it is not there any more.
            sqlite3.Error: it cannot be opened, or is being replaced all the time.
        """
        with self._lock:
            if self._leaving:
                raise sqlite3.OperationalError("no connection to it is idle")
            for _ in range(_TRIES):
                before = Marks.of(self._paths)
                if before.file is None and not self._create:
                    raise DatabaseLost(
                        f"the database {self.path} is not there any more, or its folder is not mounted; put "
                        "it back, with its -wal file if it has one"
                    )
                self._set_old_logs_aside(before)
                connection = self._open()
                after = Marks.of(self._paths)
                if before.file in (None, after.file) and after.file is not None:
                    if self._seen is None:
                        self._seen = Marks(after.file, before.content or after.content, after.logs)
                        self._keep_inode()
                    self._create = False
                    connection.generation = self._generation
                    return connection
                connection.close()
        raise sqlite3.OperationalError("another file is put in its place all the time")

    def is_past(self, connection: object) -> bool:
        """Whether a connection is to a file that was replaced since."""
        return isinstance(connection, Connected) and connection.generation != self._generation

    def _open(self) -> Connected:
        mode = "rwc" if self._create else "rw"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            timeout=self._timeout,
            isolation_level=None,  # transactions begin with our own BEGIN, so the driver must not begin any
            check_same_thread=False,
            factory=Connected,
            uri=True,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep_inode(self) -> None:
        self._release_inode()
        self._release_inode = lambda: None
        if _NAME_ONLY is not None:
            with contextlib.suppress(OSError):
                descriptor = os.open(self.path, _NAME_ONLY | os.O_CLOEXEC)
                self._release_inode = weakref.finalize(self, os.close, descriptor)

    def _set_old_logs_aside(self, now: Marks) -> None:
        """Renames logs that lie beside a new file and are those of the file before."""
        left = self._left
        if left is None or now.file in (None, left.file):
            return
        try:
            with _alone(self.path.parent):  # other processes look at the same files
                for suffix, inode, old in zip(LOGS, Marks.of(self._paths).logs, left.logs, strict=True):
                    if inode is not None and inode == old:
                        aside = Path(f"{self.path}{suffix}").replace(f"{self.path}{suffix}.of-{inode[1]}")
                        log.warning("%s%s is of the file before; it is %s now", self.path, suffix, aside)
        except OSError as error:
            raise DatabaseLost(
                f"the database {self.path} was replaced, and the logs beside it ({', '.join(LOGS)}) are of "
                f"the file before and cannot be set aside ({error.strerror}); move them away"
            ) from error

    def _write_back(self, engine: Engine) -> None:
        """Writes the log of a file that was replaced back into it, as far as its readers allow."""
        self._leaving = True
        try:
            with contextlib.closing(engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, SQLAlchemyError) as error:
            log.warning("the log of the file before was not written back into it: %s", error)
        finally:
            self._leaving = False


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None

"""The object store of released models: content-addressed, each object named by its sha256.

A store is a folder, or any location that fsspec can write to (`registry.store.remote`). In both, the name
of an object holds all of it or nothing: in a folder it is written to a temporary name, flushed to the disk
and renamed. What a killed process leaves behind starts with a dot and is never read; `gc` removes
it (`registry.store.garbage`).

Copies of files by pieces, hashed as they are copied, so that no file is held in memory.

The files of a store, by their names: objects, and what is being written or was left half-written.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from registry.bundle.folder import flush_folder
from registry.bundle.manifest import sha256
from registry.errors import ObjectCorrupt, ObjectMissing, StoreError

PIECE = 2**20  # bytes in memory at a time


@dataclass(frozen=True)
class Staged:
    """A copy of a file that nobody else writes to, on a local disk, not yet an object.

    Attributes:
        path: where the copy lies.
        digest: of what was copied.
        size: bytes.
    """

    path: Path
    digest: str
    size: int


def copy_in(source: Path | bytes, target: Path, most: int | None = None) -> Staged:
    """Copies a file, or bytes, to a new file; `flush` it before it is relied on.

    Args:
        source: what is copied.
        target: a file that is not there yet.
        most: the most bytes that are copied.

    Raises:
        StoreError: there is more to copy.
        OSError: the disk refuses.
    """
    hashed, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with os.fdopen(handle, "wb") as file:
        for piece in _pieces(source):
            size += len(piece)
            if most is not None and size > most:
                raise StoreError(
                    f"{told(source)} has more than {most:,} bytes, and had fewer when it was looked at; "
                    "put it once it changes no more"
                )
            hashed.update(piece)
            file.write(piece)
    return Staged(target, f"sha256:{hashed.hexdigest()}", size)


def told(source: Path | bytes) -> str:
    """What messages call a source."""
    return "what is put" if isinstance(source, bytes) else str(source)


def flush(path: Path) -> None:
    """Flushes a file to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(file: BinaryIO) -> str:
    """The digest of what is left to read of a file."""
    hashed = hashlib.sha256()
    while piece := file.read(PIECE):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


def _pieces(source: Path | bytes) -> Iterator[bytes | memoryview]:
    if isinstance(source, bytes):
        whole = memoryview(source)
        yield from (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))
        return
    with source.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


OBJECTS = "objects"
"""The folder of all objects, below the store's own."""

_OBJECT = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]+")


@dataclass(frozen=True)
class StoreFile:
    """One file that a store holds.

    Attributes:
        name: where it is below the store, such as `objects/ab/<64 hex digits>`.
        digest: the object that it should be; None for what a killed process left.
        size: bytes.
        written: when it was put there last; None where the filesystem does not say.
    """

    name: str
    digest: str | None
    size: int
    written: datetime | None


def object_name(digest: str) -> str:
    """The path of an object below its store: `objects/ab/<64 hex digits>`."""
    name = digest.removeprefix("sha256:")
    return f"{OBJECTS}/{name[:2]}/{name}"


def unfinished_name(digest: str) -> str:
    """A unique temporary name beside the object's, for while it is being written."""
    path = PurePosixPath(object_name(digest))
    return str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))


def store_file(name: str, size: int, written: datetime | None) -> StoreFile | None:
    """The file at `objects/ab/…`; None where it is neither an object nor an unfinished one."""
    path = PurePosixPath(name)
    if _OBJECT.fullmatch(path.name) and path.parent.name == path.name[:2]:
        return StoreFile(name, f"sha256:{path.name}", size, written)
    return StoreFile(name, None, size, written) if _UNFINISHED.fullmatch(path.name) else None


State = Literal["intact", "missing", "altered"]


class Store(ABC):
    """The interface of an object store, safe to share between threads and processes.

    Attributes:
        location: where it is, as messages say it: without secrets.
    """

    location: str

    def put(self, source: Path | bytes) -> str:
        """Stores bytes, or a file with a piece of it in memory at a time, and returns the digest.

        It repairs an altered object of that name. An object that is there counts as written now, so that `gc`
        spares it for another while.

        Raises:
            StoreError: the file cannot be read, or the store refuses.
        """
        with self.staged(source) as copy:
            self.keep(copy)
        return copy.digest

    @abstractmethod
    def staged(self, source: Path | bytes, most: int | None = None) -> AbstractContextManager[Staged]:
        """A copy of a file that nobody else writes to, made by pieces; gone at the end, kept or not.

        Args:
            source: the file, or its bytes.
            most: the most bytes that it may have.

        Raises:
            StoreError: it has more, cannot be read, or the disk refuses.
        """

    @abstractmethod
    def keep(self, staged: Staged) -> None:
        """Makes an object of a copy that `staged` gave.

        Raises:
            StoreError: the store refuses.
        """

    @abstractmethod
    def open(self, digest: str) -> AbstractContextManager[BinaryIO]:
        """The object's file, its digest not verified.

        Raises:
            ObjectMissing: it is not there.
            StoreError: it cannot be read.
        """

    def get(self, digest: str) -> bytes:
        """The object's bytes, their digest verified.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """
        with self.open(digest) as file:
            content = file.read()
        check_digest(sha256(content), digest, self.location)
        return content

    def require(self, digest: str) -> None:
        """Verifies the object's digest, with a piece of it in memory at a time.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """
        with self.open(digest) as file:
            check_digest(digest_of(file), digest, self.location)

    @abstractmethod
    def local(self, digest: str) -> AbstractContextManager[Path]:
        """A file on a local disk with the object's bytes, their digest verified, for as long as it is used.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """

    def has(self, digest: str) -> bool:
        """Whether the object is there, altered or not.

        Raises:
            StoreError: the store does not answer.
        """
        return self.look(object_name(digest)) is not None

    def is_empty(self) -> bool:
        """Whether the store holds no object, or is not there at all.

        Raises:
            StoreError: the store cannot be listed.
        """
        return not any(file.digest is not None for file in self.files())

    @abstractmethod
    def files(self) -> Iterator[StoreFile]:
        """Every object and every unfinished one; other files are ignored.

        Raises:
            StoreError: the store cannot be listed.
        """

    @abstractmethod
    def look(self, name: str) -> StoreFile | None:
        """The current size and age of a file; None where it is gone.

        Raises:
            StoreError: the store does not answer.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file that `files` listed, if it is still there.

        Raises:
            StoreError: the store refuses.
        """

    def check(self, digest: str) -> State:
        """Whether the object is intact, missing or altered.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            self.require(digest)
        except ObjectMissing:
            return "missing"
        except ObjectCorrupt:
            return "altered"
        return "intact"


class FolderStore(Store):
    """A folder of objects on a local disk.

    Attributes:
        folder: where it is; made when the first object is put there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.location = str(folder)

    @contextlib.contextmanager
    def staged(self, source: Path | bytes, most: int | None = None) -> Iterator[Staged]:
        """A copy of a file within the store, under a name that starts with a dot."""
        unfinished = self.folder / unfinished_name(f"sha256:{secrets.token_hex(32)}")
        try:
            try:
                unfinished.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                copy = copy_in(source, unfinished, most)
            except OSError as error:
                raise StoreError(
                    f"{told(source)} cannot be copied to {self.folder} ({error.strerror}); check both, "
                    "the disk and the permissions"
                ) from error
            yield copy
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def keep(self, staged: Staged) -> None:
        """Gives a copy the name of its object: flushed to the disk before, and its folders after."""
        path = self.path(staged.digest)
        try:
            if self.check(staged.digest) != "intact" or not _renewed(path):
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                os.utime(staged.path)  # it was copied some time ago, and is young from now on
                flush(staged.path)
                staged.path.replace(path)
            # Also where it was there: whoever wrote it may not have come to this yet.
            for folder in (path.parent, path.parent.parent, self.folder):
                flush_folder(folder)
        except OSError as error:
            raise self._not_written(staged.digest, error) from error

    @contextlib.contextmanager
    def local(self, digest: str) -> Iterator[Path]:
        """The object's own file: nobody may write to it."""
        self.require(digest)
        yield self.path(digest)

    def files(self) -> Iterator[StoreFile]:
        """Every object and every unfinished one, by name; links are neither."""
        try:
            found = sorted((self.folder / OBJECTS).glob("*/*"))
        except OSError as error:
            raise StoreError(
                f"{self.folder} cannot be listed ({error.strerror}); check its permissions"
            ) from error
        for path in found:
            if (one := self.look(path.relative_to(self.folder).as_posix())) is not None:
                yield one

    def look(self, name: str) -> StoreFile | None:
        """The current size and age of a file."""
        try:
            state = (self.folder / name).lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"{self.folder / name} cannot be read ({error.strerror}); check its permissions"
            ) from error
        if not stat.S_ISREG(state.st_mode):
            return None
        return store_file(name, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC))

    def remove(self, name: str) -> None:
        """Removes a file; its folder stays, since somebody may be about to write there."""
        try:
            (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.folder / name} cannot be removed ({error.strerror}); check its permissions"
            ) from error

    def path(self, digest: str) -> Path:
        """The path of an object."""
        return self.folder / object_name(digest)

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """The object's file, its digest not verified."""
        path = self.path(digest)
        try:
            with path.open("rb") as file:
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissing(f"object {digest} is not in {self.folder}") from error
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); check its permissions") from error

    def _not_written(self, what: str, error: OSError) -> StoreError:
        return StoreError(
            f"{what} cannot be written to {self.folder} ({error.strerror}); check the disk and its "
            "permissions"
        )


def check_digest(actual: str, digest: str, location: str) -> None:
    """Verifies that the bytes of an object have the digest that names it.

    Raises:
        ObjectCorrupt: they have another.
    """
    if actual != digest:
        raise ObjectCorrupt(f"object {digest} in {location} was altered: its bytes have {actual}")


def _renewed(path: Path) -> bool:
    """Sets an object's time to now; False where it is gone, or another user's."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True

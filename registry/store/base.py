"""The object store of released models: content-addressed, each object named by its sha256.

A store is a folder, or any location that fsspec can write to (`registry.store.remote`). In both, the name
of an object holds all of it or nothing: in a folder it is written to a temporary name, flushed to the disk
and renamed. What a killed process leaves behind starts with a dot and is never read; `gc` removes
it (`registry.store.garbage`).
"""

import os
import re
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from registry.bundle.folder import flush_folder
from registry.bundle.manifest.schema import sha256
from registry.errors import ObjectCorrupt, ObjectMissing, StoreError

State = Literal["intact", "missing", "altered"]

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


class Store(ABC):
    """The interface of an object store, safe to share between threads and processes.

    Attributes:
        location: where it is, as messages say it: without secrets.
    """

    location: str

    @abstractmethod
    def put(self, content: bytes) -> str:
        """Stores `content` and returns its digest; repairs an altered object of that name.

        An object that is there counts as written now, so that `gc` spares it for another while.

        Raises:
            StoreError: the store refuses.
        """

    @abstractmethod
    def get(self, digest: str) -> bytes:
        """The object's bytes, their digest verified.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """

    @abstractmethod
    def has(self, digest: str) -> bool:
        """Whether the object is there, altered or not."""

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
            self.get(digest)
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

    def put(self, content: bytes) -> str:
        """Stores `content`: flushed to the disk before it gets its name, and its folders after."""
        digest = sha256(content)
        path = self.path(digest)
        try:
            if self.check(digest) != "intact" or not _renewed(path):
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                _write(path, content)
            # Also where it was there: whoever wrote it may not have come to this yet.
            for folder in (path.parent, path.parent.parent, self.folder):
                flush_folder(folder)
        except OSError as error:
            raise StoreError(
                f"{digest} cannot be written to {self.folder} ({error.strerror}); "
                "check the disk and its permissions"
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        """The object's bytes, their digest verified."""
        path = self.path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(f"object {digest} is not in {self.folder}") from error
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
        return intact(content, digest, self.location)

    def has(self, digest: str) -> bool:
        """Whether the object is there, altered or not."""
        return self.path(digest).is_file()

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


def intact(content: bytes, digest: str, location: str) -> bytes:
    """Verifies that `content` is that of the object, and returns it.

    Raises:
        ObjectCorrupt: it has another digest.
    """
    if (actual := sha256(content)) != digest:
        raise ObjectCorrupt(f"object {digest} in {location} was altered: its bytes have {actual}")
    return content


def _renewed(path: Path) -> bool:
    """Sets an object's time to now; False where it is gone, or another user's."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise

"""Where the bytes of released models lie: objects, each named by its own sha256.

A store is a folder, or any place that fsspec can write to (`registry.remote_store`). In both, the name
of an object holds all of it or nothing: in a folder it is written beside its place, flushed to the disk
and moved there. What a killed process leaves behind starts with a dot and is never read; `gc` removes
it (`registry.collecting`).
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
from urllib.parse import unquote, urlsplit

from registry.bundle.folder import flush_folder
from registry.bundle.schema import sha256
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, StoreError

State = Literal["intact", "missing", "altered"]

OBJECTS = "objects"
"""The folder of all objects, below the store's own."""

_OBJECT = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]+")


def open_store(place: str) -> "Store":
    """The store at a path, a `file://` address, or an address that fsspec understands.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the place cannot be opened, or needs a package that is not installed.
    """
    scheme, colon, _ = place.partition("://")
    if not colon:
        return FolderStore(Path(place).absolute())
    if scheme.lower() != "file":
        from registry.remote_store import open_remote  # fsspec is for those who use it

        return open_remote(place)
    address = urlsplit(place)
    if address.netloc not in ("", "localhost") or not address.path:
        raise InvalidName(
            f"the store {place!r} cannot be used; name a folder, file:///path/to/folder, or another place "
            "such as s3://bucket/models"
        )
    return FolderStore(Path(unquote(address.path)))


@dataclass(frozen=True)
class StoreFile:
    """One file that a store holds.

    Attributes:
        name: where it is below the store, such as `objects/ab/<64 hex digits>`.
        digest: the object that it should be; None for what a killed process left.
        size: bytes.
        written: when it was put there last; None where the place does not say.
    """

    name: str
    digest: str | None
    size: int
    written: datetime | None


class Store(ABC):
    """Objects by their digest, safe to share between threads and processes.

    Attributes:
        place: where it is, as messages say it: without secrets.
    """

    place: str

    @abstractmethod
    def put(self, content: bytes) -> str:
        """Keeps `content` and returns its digest; an altered object of that name is put right.

        An object that is there counts as written now, so that `gc` spares it for another while.

        Raises:
            StoreError: the place refuses.
        """

    @abstractmethod
    def get(self, digest: str) -> bytes:
        """The object's bytes, which are those that were put there.

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
        """Every object and every unfinished one; files that are neither are nobody's business here.

        Raises:
            StoreError: the place cannot be listed.
        """

    @abstractmethod
    def look(self, name: str) -> StoreFile | None:
        """The file of that name as it is at this moment; None where it is gone.

        Raises:
            StoreError: the place does not answer.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file that `files` told of; one that is gone stays gone.

        Raises:
            StoreError: the place refuses.
        """

    def check(self, digest: str) -> State:
        """Whether the object is there and is what was put there.

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
        self.place = str(folder)

    def put(self, content: bytes) -> str:
        """Keeps `content`, flushed to the disk before it gets its name and its folders after."""
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
        """The object's bytes, checked."""
        path = self.path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(f"object {digest} is not in {self.folder}") from error
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
        return intact(content, digest, self.place)

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
        """The file of that name as it is now."""
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
        """Where the object lies."""
        return self.folder / object_name(digest)


def object_name(digest: str) -> str:
    """Where an object lies below its store: `objects/ab/<64 hex digits>`."""
    name = digest.removeprefix("sha256:")
    return f"{OBJECTS}/{name[:2]}/{name}"


def unfinished_name(digest: str) -> str:
    """A name beside the object's, of nobody else's, for as long as it is being written."""
    path = PurePosixPath(object_name(digest))
    return str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))


def store_file(name: str, size: int, written: datetime | None) -> StoreFile | None:
    """What `objects/ab/…` is; None where it is neither an object nor an unfinished one."""
    path = PurePosixPath(name)
    if _OBJECT.fullmatch(path.name) and path.parent.name == path.name[:2]:
        return StoreFile(name, f"sha256:{path.name}", size, written)
    return StoreFile(name, None, size, written) if _UNFINISHED.fullmatch(path.name) else None


def intact(content: bytes, digest: str, place: str) -> bytes:
    """`content`, if it is that of the object.

    Raises:
        ObjectCorrupt: it has another digest.
    """
    if (actual := sha256(content)) != digest:
        raise ObjectCorrupt(f"object {digest} in {place} was altered: its bytes have {actual}")
    return content


def _renewed(path: Path) -> bool:
    """Makes an object count as written now; False where it is gone, or another user's."""
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

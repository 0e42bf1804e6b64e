"""The content-addressed object store: each object is named by its sha256, on any filesystem of fsspec.

A local folder, `s3://`, `gs://`, `az://`, `sftp://` and the like have one layout, `objects/ab/<64 hex
digits>`, and one way of writing. The name of an object holds all of it or nothing:

- Object stores (`_PUTS`) have no move, and a single put is atomic there: the object is put under its name.
- Elsewhere a move within a folder is atomic: the object is put under a name that starts with a dot, and
  then moved. In a local folder it is flushed to the disk before it is moved, and its folders after.

What was written is read back and compared, since not every filesystem reports a partial write. What a
killed process leaves behind starts with a dot and is never read; `gc` removes it
(`registry.stored_bundles`). Files are copied and hashed by pieces, so that none is held in memory.
"""

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal
from urllib.parse import unquote

from registry.bundle.folder import flush_folder
from registry.bundle.manifest import sha256
from registry.environment import masked, without_secrets
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, RegistryError, StoreError

PIECE = 2**20  # bytes in memory at a time
_BLOCK = 2**22  # bytes that are requested at a time where a file is read by pieces

_ALLOWED = (
    "name a folder, file:///path/to/folder, or a place that can be written to, such as s3://bucket/models"
)
_PUTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "tos", "tosfs", "memory"}
_READ_ONLY = {"http", "https", "data", "git", "github", "gist", "zip", "tar", "libarchive", "reference"}
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")  # of fsspec's `info`
_OBJECT = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]+")

State = Literal["intact", "missing", "altered"]


@dataclass(frozen=True)
class Staged:
    """A private copy of a file on a local disk, not yet an object.

    Attributes:
        path: the copy.
        digest: of what was copied.
        size: bytes.
    """

    path: Path
    digest: str
    size: int


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
    return f"objects/{name[:2]}/{name}"


def open_store(location: str) -> "Store":
    """Opens the store at a path, a `file://` address, or an address that fsspec understands.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the location cannot be opened, or needs a package that is not installed.
    """
    import fsspec
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    shown = masked(location)
    scheme, colon, rest = location.partition("://")
    scheme = scheme.lower()
    if not colon:
        # An address with a letter missing is no folder that would be made.
        if ":" in location and (location[0] != "/" or "@" in location) and not Path(location).exists():
            raise InvalidName(
                f"the store {shown!r} is no folder, and no address either: an address has `://` after its "
                f"kind; {_ALLOWED}"
            )
        return Store(LocalFileSystem(), str(Path(location).absolute()), location, moves=True)
    if scheme == "file":
        path = unquote(rest.removeprefix("localhost"))
        if not path.startswith("/"):
            raise InvalidName(f"the store {shown!r} cannot be used; {_ALLOWED}")
        return Store(LocalFileSystem(), path, path, moves=True)
    if "::" in location or scheme in _READ_ONLY or scheme not in fsspec.available_protocols():
        raise InvalidName(f"the store {shown!r} is read-only, a chain or of an unknown kind; {_ALLOWED}")
    try:
        filesystem, root = url_to_fs(location)
    except Exception as error:  # of whatever kind the filesystem's author chose
        said = without_secrets(f"{type(error).__name__}: {error}", location)
        advice = "check the address and your credentials"
        if isinstance(error, ImportError):
            advice = "install the package that fsspec needs for it"
        raise StoreError(f"the store {shown} cannot be opened ({said}); {advice}") from error
    if not root.strip("/"):
        raise InvalidName(f"the store {shown!r} names no folder; {_ALLOWED}")
    return Store(filesystem, root, location, moves=scheme not in _PUTS)


class Store:
    """An object store, safe to share between threads and processes.

    Args:
        filesystem: an `fsspec.AbstractFileSystem`.
        root: the store's folder there; made when the first object is put there.
        address: its address, which may hold secrets.
        moves: whether objects are put under a temporary name and moved.

    Attributes:
        location: where it is, as messages say it: without secrets.
    """

    def __init__(self, filesystem: Any, root: str, address: str, *, moves: bool) -> None:
        from fsspec.implementations.local import LocalFileSystem

        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._address = address
        self._moves = moves
        self._local = isinstance(filesystem, LocalFileSystem)
        self.location = root if self._local and "://" not in address else masked(address)

    def put(self, source: Path | bytes) -> str:
        """Stores bytes, or a file with a piece of it in memory at a time, and returns the digest.

        It is written whether or not it is there: that repairs an altered object, and makes it young for `gc`.

        Raises:
            StoreError: the file cannot be read, or the store refuses.
        """
        with self.staged(source) as copy:
            self.keep(copy)
        return copy.digest

    @contextlib.contextmanager
    def staged(self, source: Path | bytes, most: int | None = None) -> Iterator[Staged]:
        """A private copy of a file in a folder for temporary files (`TMPDIR`); gone at the end.

        Args:
            source: the file, or its bytes.
            most: the most bytes that it may have.

        Raises:
            StoreError: it has more, cannot be read, or the disk refuses.
        """
        named = "the content" if isinstance(source, bytes) else str(source)
        with tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            target, hashed, size = Path(folder) / "copy", hashlib.sha256(), 0
            try:
                with target.open("wb") as file:
                    for piece in _pieces(source):
                        size += len(piece)
                        if most is not None and size > most:
                            raise StoreError(
                                f"{named} has more than {most:,} bytes; add it once it changes no more"
                            )
                        hashed.update(piece)
                        file.write(piece)
            except OSError as error:
                raise StoreError(
                    f"{named} cannot be copied to {folder} ({error.strerror}); check both, and name a place "
                    "with room for it with TMPDIR"
                ) from error
            yield Staged(target, f"sha256:{hashed.hexdigest()}", size)

    def keep(self, staged: Staged) -> None:
        """Makes an object of a copy that `staged` gave.

        Raises:
            StoreError: the store refuses, or keeps other bytes.
        """
        digest = staged.digest
        final = self._path(digest)
        folder, _, name = final.rpartition("/")
        first = f"{folder}/.{name}.{secrets.token_hex(8)}" if self._moves else final
        with self._explained(f"{digest} cannot be written to {self.location}"):
            try:
                if self._moves:
                    self._filesystem.makedirs(folder, exist_ok=True)
                self._filesystem.put_file(str(staged.path), first)
                self._check_kept(first, digest)
                if self._local:
                    _protect_and_flush(Path(first))
                if self._moves:
                    (os.rename if self._local else self._filesystem.mv)(first, final)
                if self._local:
                    for path in (folder, f"{self._root}/objects", self._root):
                        flush_folder(Path(path))
                elif self._moves:
                    self._check_kept(final, digest)
            except BaseException:
                with contextlib.suppress(Exception):  # as far as the filesystem still answers
                    if self._moves:
                        self._filesystem.rm_file(first)
                with contextlib.suppress(Exception):
                    # An object that was whole before is left: it is still what its name says.
                    if self.check(digest) == "altered":
                        self.remove(object_name(digest))
                raise

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """The object's file, its digest not verified.

        Raises:
            ObjectMissing: it is not there.
            StoreError: it cannot be read.
        """
        with self._explained(f"{digest} cannot be read from {self.location}"):
            try:
                with self._filesystem.open(self._path(digest), block_size=_BLOCK) as file:
                    yield file
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ObjectMissing(f"object {digest} is not in {self.location}") from error

    def get(self, digest: str) -> bytes:
        """The object's bytes, their digest verified.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """
        with self.open(digest) as file:
            content = file.read()
        self._require_same(sha256(content), digest)
        return content

    def require(self, digest: str) -> None:
        """Verifies the object's digest, with a piece of it in memory at a time; raises as `get`."""
        with self.open(digest) as file:
            self._require_same(_digest_of(file), digest)

    @contextlib.contextmanager
    def local(self, digest: str) -> Iterator[Path]:
        """A verified copy of the object in a folder for temporary files (`TMPDIR`); raises as `get`."""
        with self.open(digest) as source, tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            path, hashed = Path(folder) / "copy", hashlib.sha256()
            with path.open("wb") as target:
                while piece := source.read(PIECE):
                    hashed.update(piece)
                    target.write(piece)
            self._require_same(f"sha256:{hashed.hexdigest()}", digest)
            yield path

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

    def files(self) -> Iterator[StoreFile]:
        """Every object and every unfinished one, by name; links and other files are ignored.

        Raises:
            StoreError: the store cannot be listed.
        """
        with self._explained(f"{self.location} cannot be listed"):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.find(f"{self._root}/objects", detail=True)
            except FileNotFoundError:
                found = {}
        for path in sorted(found):
            if (one := _store_file(found[path])) is not None:
                yield one

    def look(self, name: str) -> StoreFile | None:
        """The current size and age of a file; None where it is gone.

        Raises:
            StoreError: the store does not answer.
        """
        with self._explained(f"{name} cannot be read from {self.location}"):
            self._filesystem.invalidate_cache()
            try:
                return _store_file(self._filesystem.info(f"{self._root}/{name}"))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def remove(self, name: str) -> None:
        """Removes a file that `files` listed, if it is still there.

        Raises:
            StoreError: the store refuses.
        """
        with (
            self._explained(f"{name} cannot be removed from {self.location}"),
            contextlib.suppress(FileNotFoundError),
        ):
            self._filesystem.rm_file(f"{self._root}/{name}")

    def _path(self, digest: str) -> str:
        return f"{self._root}/{object_name(digest)}"

    def _check_kept(self, path: str, digest: str) -> None:
        with self._filesystem.open(path, "rb", block_size=_BLOCK) as file:
            actual = _digest_of(file)
        if actual != digest:
            raise StoreError(
                f"{digest} was written to {self.location}, which keeps other bytes ({actual}); try again, "
                "and choose another place if it happens again"
            )

    def _require_same(self, actual: str, digest: str) -> None:
        if actual != digest:
            raise ObjectCorrupt(f"object {digest} in {self.location} was altered: its bytes have {actual}")

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except RegistryError:
            raise
        except Exception as error:  # of whatever kind the filesystem's author chose
            said = without_secrets(f"{type(error).__name__}: {error}", self._address)
            raise StoreError(
                f"{what} ({said}); check the place, the network and your permissions there"
            ) from error


def _pieces(source: Path | bytes) -> Iterator[bytes | memoryview]:
    if isinstance(source, bytes):
        whole = memoryview(source)
        yield from (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))
        return
    with source.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _digest_of(file: BinaryIO) -> str:
    hashed = hashlib.sha256()
    while piece := file.read(PIECE):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


def _protect_and_flush(path: Path) -> None:
    """Makes a file read-only for all, within the umask, and flushes it to the disk: fsspec does neither."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fchmod(handle, os.fstat(handle).st_mode & 0o444)
        os.fsync(handle)
    finally:
        os.close(handle)


def _store_file(info: dict[str, Any]) -> StoreFile | None:
    """The file at `objects/ab/…`; None where it is neither an object nor an unfinished one."""
    if info.get("type") != "file" or info.get("islink"):
        return None
    path = PurePosixPath("/".join(str(info["name"]).split("/")[-3:]))
    if _OBJECT.fullmatch(path.name) and path.parent.name == path.name[:2]:
        digest = f"sha256:{path.name}"
    elif _UNFINISHED.fullmatch(path.name):
        digest = None
    else:
        return None
    return StoreFile(str(path), digest, int(info.get("size") or 0), _written(info))


def _written(info: dict[str, Any]) -> datetime | None:
    """When a file was written, by the keys that fsspec's filesystems use."""
    for key in _TIMES:
        value = info.get(key)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None

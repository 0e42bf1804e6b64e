"""The object store of released models: content-addressed, each object named by its sha256.

A store is a folder, or any location that fsspec can write to: `s3://`, `gs://`, `az://`, `sftp://`, `memory://`,
…. Everywhere the name of an object holds all of it or nothing; how depends on the filesystem:

- In a folder on a local disk an object is written to a temporary name, flushed to the disk and renamed, which
  fsspec's local files do not do (`FolderStore`).
- Object stores (`_PUTS`) have no move, only copy and delete, and there a single put is atomic: the object is
  visible when all of it has arrived.
- Elsewhere (`sftp`, `smb`, `hdfs` and others) a put is visible from its first byte, and a move within a
folder
  is atomic: the object is put under a temporary name, and then moved. A filesystem whose move is secretly a
  copy may list half an object; no reader is handed it, since every read compares the digest.

Temporary names start with a dot and are never read; `gc` removes what a killed process leaves
(`registry.store.garbage`). What was written elsewhere than in a folder is read back and compared, since not
every filesystem reports a partial write. Files are copied by pieces, hashed as they are copied, so that none
is held in memory.
"""

import contextlib
import hashlib
import os
import posixpath
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import unquote, urlsplit

from registry.bundle.folder import flush_folder
from registry.bundle.manifest import sha256
from registry.environment import holds_credentials, masked, without_secrets
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, RegistryError, StoreError

PIECE: Final = 2**20  # bytes in memory at a time
OBJECTS: Final = "objects"
"""The folder of all objects, below the store's own."""

_OBJECT: Final = re.compile(r"[0-9a-f]{64}")
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]+")
_PUTS: Final = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "tos", "tosfs", "memory"}
_READ_ONLY: Final = {
    "http",
    "https",
    "data",
    "git",
    "github",
    "gist",
    "zip",
    "tar",
    "libarchive",
    "reference",
}
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")  # of fsspec's `info`
_ALLOWED: Final = (
    "name a folder, file:///path/to/folder, or a place that can be written to, such as s3://bucket/models"
)

State = Literal["intact", "missing", "altered"]


@dataclass(frozen=True)
class Staged:
    """A copy of a file that no other process writes to, on a local disk, not yet an object.

    Attributes:
        path: where the copy lies.
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
    return f"{OBJECTS}/{name[:2]}/{name}"


def _unfinished_name(digest: str) -> str:
    """A unique temporary name beside the object's, for while it is being written."""
    path = PurePosixPath(object_name(digest))
    return str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))


def named(source: Path | bytes) -> str:
    """What messages call a source."""
    return "what is put" if isinstance(source, bytes) else str(source)


def _copy(source: Path | bytes, target: Path, most: int | None) -> Staged:
    """Copies a file, or bytes, to a new file, by pieces."""
    hashed, size = hashlib.sha256(), 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with os.fdopen(handle, "wb") as file:
        for piece in _pieces(source):
            size += len(piece)
            if most is not None and size > most:
                raise StoreError(
                    f"{named(source)} has more than {most:,} bytes, and had fewer when it was looked at; "
                    "put it once it changes no more"
                )
            hashed.update(piece)
            file.write(piece)
    return Staged(target, f"sha256:{hashed.hexdigest()}", size)


def _pieces(source: Path | bytes) -> Iterator[bytes | memoryview]:
    if isinstance(source, bytes):
        whole = memoryview(source)
        yield from (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))
        return
    with source.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _digest_of(file: BinaryIO) -> str:
    """The digest of what is left to read of a file."""
    hashed = hashlib.sha256()
    while piece := file.read(PIECE):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


class Store:
    """An object store on a filesystem of fsspec, safe to share between threads and processes.

    Args:
        filesystem: an `fsspec.AbstractFileSystem`.
        root: the store's folder there.
        uri: its address, which may hold secrets.

    Attributes:
        location: where it is, as messages say it: without secrets.
    """

    def __init__(self, filesystem: Any, root: str, uri: str) -> None:
        self.location = masked(uri)
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._uri = uri
        self._moves = uri.partition("://")[0].lower() not in _PUTS

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

    @contextlib.contextmanager
    def staged(self, source: Path | bytes, most: int | None = None) -> Iterator[Staged]:
        """A copy of a file that no other process writes to; gone at the end, kept or not.

        Args:
            source: the file, or its bytes.
            most: the most bytes that it may have.

        Raises:
            StoreError: it has more, cannot be read, or the disk refuses.
        """
        with tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            yield self._staged(source, Path(folder) / "copy", most, "name a place with room with TMPDIR")

    def _staged(self, source: Path | bytes, target: Path, most: int | None, advice: str) -> Staged:
        try:
            return _copy(source, target, most)
        except OSError as error:
            raise StoreError(
                f"{named(source)} cannot be copied to {target.parent} ({error.strerror}); check both, "
                f"or {advice}"
            ) from error

    def keep(self, staged: Staged) -> None:
        """Makes an object of a copy that `staged` gave; always written anew, which costs less than reading.

        Raises:
            StoreError: the store refuses.
        """
        digest, name = staged.digest, object_name(staged.digest)
        first = _unfinished_name(digest) if self._moves else name
        with self._explained(f"{digest} cannot be written to {self.location}"):
            try:
                if self._moves:
                    self._filesystem.makedirs(posixpath.dirname(self._path(name)), exist_ok=True)
                self._filesystem.put_file(str(staged.path), self._path(first))
                self._check_kept(first, digest)
                if self._moves:
                    self._filesystem.mv(self._path(first), self._path(name))
                    self._check_kept(name, digest)
            except BaseException:
                # What a failed write left, as far as the filesystem still answers; an object that was whole
                # before is left: it is still what its name says.
                with contextlib.suppress(Exception):
                    if self._moves:
                        self.remove(first)
                with contextlib.suppress(Exception):
                    if self.check(digest) == "altered":
                        self.remove(name)
                raise

    def _check_kept(self, name: str, digest: str) -> None:
        with self._filesystem.open(self._path(name), "rb", block_size=4 * PIECE) as file:
            actual = _digest_of(file)
        if actual != digest:
            raise StoreError(
                f"{digest} was written to {self.location}, which keeps other bytes ({actual}); try again, "
                "and choose another place if it happens again"
            )

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """The object's file, its digest not verified.

        Raises:
            ObjectMissing: it is not there.
            StoreError: it cannot be read.
        """
        with self._explained(f"{digest} cannot be read from {self.location}"):
            try:
                with self._filesystem.open(self._path(object_name(digest)), block_size=4 * PIECE) as file:
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
        self._check_digest(sha256(content), digest)
        return content

    def require(self, digest: str) -> None:
        """Verifies the object's digest, with a piece of it in memory at a time; raises as `get`."""
        with self.open(digest) as file:
            self._check_digest(_digest_of(file), digest)

    @contextlib.contextmanager
    def local(self, digest: str) -> Iterator[Path]:
        """A file on a local disk with the object's bytes, their digest verified; raises as `get`."""
        with tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            path = Path(folder) / "copy"
            with self.open(digest) as file, path.open("wb") as copy:
                while piece := file.read(PIECE):
                    copy.write(piece)
            with path.open("rb") as written:
                self._check_digest(_digest_of(written), digest)
            yield path

    def _check_digest(self, actual: str, digest: str) -> None:
        if actual != digest:
            raise ObjectCorrupt(f"object {digest} in {self.location} was altered: its bytes have {actual}")

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
        """Whether the object is there, altered or not."""
        return self.look(object_name(digest)) is not None

    def is_empty(self) -> bool:
        """Whether the store holds no object, or is not there at all."""
        return not any(file.digest is not None for file in self.files())

    def files(self) -> Iterator[StoreFile]:
        """Every object and every unfinished one, by name; other files and links are ignored.

        Raises:
            StoreError: the store cannot be listed.
        """
        with self._explained(f"{self.location} cannot be listed"):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.find(self._path(OBJECTS), detail=True)
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
                return _store_file(self._filesystem.info(self._path(name)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def remove(self, name: str) -> None:
        """Removes a file that `files` listed, if it is still there; its folder stays.

        Raises:
            StoreError: the store refuses.
        """
        with (
            self._explained(f"{name} cannot be removed from {self.location}"),
            contextlib.suppress(FileNotFoundError),
        ):
            self._filesystem.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except RegistryError:
            raise
        except Exception as error:  # of whatever kind the filesystem's author chose
            raise StoreError(
                f"{what} ({_said(error, self._uri)}); check the place, its permissions and the network"
            ) from error


class FolderStore(Store):
    """A folder of objects on a local disk, where an object gets its name once it is on the disk.

    Attributes:
        folder: where it is; made when the first object is put there.
    """

    def __init__(self, folder: Path) -> None:
        from fsspec.implementations.local import LocalFileSystem

        super().__init__(LocalFileSystem(), str(folder), str(folder))
        self.folder = folder

    def path(self, digest: str) -> Path:
        """The path of an object."""
        return self.folder / object_name(digest)

    @contextlib.contextmanager
    def staged(self, source: Path | bytes, most: int | None = None) -> Iterator[Staged]:
        """A copy of a file within the store, under a temporary name."""
        unfinished = self.folder / _unfinished_name(f"sha256:{secrets.token_hex(32)}")
        try:
            with self._explained(f"{unfinished.parent} cannot be made"):
                unfinished.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            yield self._staged(source, unfinished, most, "the disk and the permissions")
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def keep(self, staged: Staged) -> None:
        """Gives a copy the name of its object: flushed to the disk before, and its folders after."""
        path = self.path(staged.digest)
        with self._explained(f"{staged.digest} cannot be written to {self.folder}"):
            if self.check(staged.digest) != "intact" or not _renewed(path):
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                os.utime(staged.path)  # it was copied some time ago, and is young from now on
                handle = os.open(staged.path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
                staged.path.replace(path)
            # Also where it was there: its writer may not have come to this yet.
            for folder in (path.parent, path.parent.parent, self.folder):
                flush_folder(folder)

    @contextlib.contextmanager
    def local(self, digest: str) -> Iterator[Path]:
        """The object's own file: it is never written to."""
        self.require(digest)
        yield self.path(digest)


def _renewed(path: Path) -> bool:
    """Sets an object's time to now; False where it is gone, or another user's."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def open_store(location: str) -> Store:
    """Opens the store at a path, a `file://` address, or an address that fsspec understands.

    A path that looks like an address with a letter missing is refused, where no such folder is there.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the location cannot be opened, or needs a package that is not installed.
    """
    shown, (scheme, colon, _) = masked(location), location.partition("://")
    if not colon:
        mistyped = ":" in location.partition("/")[0] or holds_credentials(location)
        if mistyped and not Path(location).exists():
            raise InvalidName(
                f"the store {shown!r} is no folder, and no address either: an address has `://` after its "
                f"kind; {_ALLOWED}"
            )
        return FolderStore(Path(location).absolute())
    if scheme.lower() == "file":
        try:
            address = urlsplit(location)
        except ValueError as error:
            raise InvalidName(f"the store {shown!r} is no address; {_ALLOWED}") from error
        if address.netloc not in ("", "localhost") or not address.path:
            raise InvalidName(f"the store {shown!r} cannot be used; {_ALLOWED}")
        return FolderStore(Path(unquote(address.path)))
    return _open_remote(location, shown, scheme.lower())


def _open_remote(uri: str, shown: str, scheme: str) -> Store:
    import fsspec
    from fsspec.core import url_to_fs

    if "::" in uri or scheme in _READ_ONLY:
        raise InvalidName(f"the store {shown!r} cannot be used: it is read-only or a chain; {_ALLOWED}")
    if scheme not in fsspec.available_protocols():
        raise InvalidName(f"the store {shown!r} is of an unknown kind; {_ALLOWED}")
    try:
        filesystem, root = url_to_fs(uri)
    except ImportError as error:
        raise StoreError(
            f"the store {shown} needs a package that is not installed ({_said(error, uri)}); pip install it"
        ) from error
    except Exception as error:  # of whatever kind the filesystem's author chose
        raise StoreError(
            f"the store {shown} cannot be opened ({_said(error, uri)}); check the address and who you are"
        ) from error
    if not root.strip("/"):
        raise InvalidName(f"the store {shown!r} names no folder; {_ALLOWED}")
    return Store(filesystem, root, uri)


def _store_file(info: dict[str, Any]) -> StoreFile | None:
    """The file that fsspec's `info` is of; None where it is neither an object nor an unfinished one."""
    if info.get("type") != "file" or info.get("islink"):
        return None
    path = PurePosixPath("/".join(str(info["name"]).split("/")[-3:]))
    is_object = bool(_OBJECT.fullmatch(path.name)) and path.parent.name == path.name[:2]
    if not is_object and not _UNFINISHED.fullmatch(path.name):
        return None
    digest = f"sha256:{path.name}" if is_object else None
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


def _said(error: Exception, uri: str) -> str:
    """The text of an error, without the secrets of the address."""
    return without_secrets(f"{type(error).__name__}: {error}", uri)

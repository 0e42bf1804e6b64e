"""A store on any filesystem of fsspec: `s3://`, `gs://`, `az://`, `sftp://`, `memory://`, ….

How an object gets its name atomically depends on the filesystem:

- Object stores (`_PUTS`) have no move, only copy and delete, and there a single put is atomic: the object
  is visible when all of it has arrived. So it is put under its name.
- Elsewhere (`sftp`, `smb`, `hdfs` and whatever else) a put is visible from its first byte, and a move within
  a folder is atomic: the object is put under a name that starts with a dot, and then moved. A filesystem
  whose move is secretly a copy may show half an object to whoever lists it; nobody is handed it, since
  every read compares the digest.

What was written is read back and compared before it gets its name (for a put: before `put` returns), since
not every filesystem reports a partial write. `memory://` lasts as long as the process: it is for tests.
"""

import contextlib
import posixpath
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from registry.environment import masked, without_secrets
from registry.errors import InvalidName, ObjectMissing, RegistryError, StoreError
from registry.store.base import (
    OBJECTS,
    Staged,
    Store,
    StoreFile,
    check_digest,
    copy_in,
    digest_of,
    object_name,
    store_file,
    told,
    unfinished_name,
)

_PUTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "tos", "tosfs", "memory"}
_READ_ONLY = {"http", "https", "data", "git", "github", "gist", "zip", "tar", "libarchive", "reference"}
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_BLOCK = 2**22  # bytes that are asked for at a time where a file is read by pieces
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")  # of fsspec's `info`


def open_remote(uri: str) -> "RemoteStore":
    """Opens the store at an address that fsspec understands.

    Raises:
        InvalidName: no such kind of address, or one of a kind that cannot be written to.
        StoreError: the location cannot be opened, or needs a package that is not installed.
    """
    location = masked(uri)
    scheme = uri.partition("://")[0].lower()
    allowed = "use a folder, or a place that can be written to, such as s3://bucket/models"
    if "::" in uri or scheme in _READ_ONLY:
        raise InvalidName(f"the store {location!r} cannot be used: it is read-only or a chain; {allowed}")
    try:
        import fsspec
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise StoreError(
            f'the store {location} needs fsspec, which is not installed: pip install "dermfed[store]"'
        ) from error
    if scheme not in fsspec.available_protocols():
        raise InvalidName(f"the store {location!r} is of an unknown kind; {allowed}")
    try:
        filesystem, root = url_to_fs(uri)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        advice = f"pip install {package}" if package else "see the documentation of fsspec"
        raise StoreError(
            f"the store {location} needs a package that is not installed ({_said(error, uri)}): {advice}"
        ) from error
    except Exception as error:  # of whatever kind the filesystem's author chose
        cause = _said(error, uri)
        raise StoreError(
            f"the store {location} cannot be opened ({cause}); check the address and who you are"
        ) from error
    if not root.strip("/"):
        raise InvalidName(f"the store {location!r} names no folder; {allowed}")
    return RemoteStore(filesystem, root, uri)


class RemoteStore(Store):
    """An object store on a filesystem of fsspec.

    Args:
        filesystem: an `fsspec.AbstractFileSystem`.
        root: the store's folder there.
        uri: its address, which may hold secrets.
    """

    def __init__(self, filesystem: Any, root: str, uri: str) -> None:
        self.location = masked(uri)
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._uri = uri
        self._moves = uri.partition("://")[0].lower() not in _PUTS

    @contextlib.contextmanager
    def staged(self, source: Path | bytes, most: int | None = None) -> Iterator[Staged]:
        """A copy of a file in a folder of our own for temporary files (`TMPDIR`)."""
        with tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            try:
                copy = copy_in(source, Path(folder) / "copy", most)
            except OSError as error:
                raise StoreError(
                    f"{told(source)} cannot be copied to {folder} ({error.strerror}); check both, and name a "
                    "place with room for it with TMPDIR"
                ) from error
            yield copy

    def keep(self, staged: Staged) -> None:
        """Stores a copy, always written anew: that costs less than reading what is there."""
        digest, name = staged.digest, object_name(staged.digest)
        first = unfinished_name(digest) if self._moves else name
        with self._explained(f"{digest} cannot be written to {self.location}"):
            try:
                if self._moves:
                    self._filesystem.makedirs(posixpath.dirname(self._path(name)), exist_ok=True)
                self._filesystem.put_file(str(staged.path), self._path(first))
                self._check_kept(self._digest(first), digest)
                if self._moves:
                    self._filesystem.mv(self._path(first), self._path(name))
                    self._check_kept(self._digest(name), digest)
            except BaseException:
                self._undo(first if self._moves else None, name, digest)
                raise

    @contextlib.contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """The object's file, its digest not verified."""
        with self._explained(f"{digest} cannot be read from {self.location}"):
            try:
                with self._filesystem.open(self._path(object_name(digest)), block_size=_BLOCK) as file:
                    yield file
            except FileNotFoundError as error:
                raise ObjectMissing(f"object {digest} is not in {self.location}") from error

    @contextlib.contextmanager
    def local(self, digest: str) -> Iterator[Path]:
        """A copy of the object in a folder of our own for temporary files (`TMPDIR`)."""
        with tempfile.TemporaryDirectory(prefix="dermfed-") as folder:
            path = Path(folder) / "copy"
            with self._explained(f"{digest} cannot be copied from {self.location} to {folder}"):
                try:
                    self._filesystem.get_file(self._path(object_name(digest)), str(path))
                except FileNotFoundError as error:
                    raise ObjectMissing(f"object {digest} is not in {self.location}") from error
                with path.open("rb") as file:
                    check_digest(digest_of(file), digest, self.location)
            yield path

    def files(self) -> Iterator[StoreFile]:
        """Every object and every unfinished one, by name."""
        with self._explained(f"{self.location} cannot be listed"):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.find(self._path(OBJECTS), detail=True)
            except FileNotFoundError:
                found = {}
        for path in sorted(found):
            if (one := self._file(found[path])) is not None:
                yield one

    def look(self, name: str) -> StoreFile | None:
        """The current size and age of a file."""
        with self._explained(f"{name} cannot be read from {self.location}"):
            self._filesystem.invalidate_cache()
            try:
                return self._file(self._filesystem.info(self._path(name)))
            except FileNotFoundError:
                return None

    def remove(self, name: str) -> None:
        """Removes a file."""
        with (
            self._explained(f"{name} cannot be removed from {self.location}"),
            contextlib.suppress(FileNotFoundError),
        ):
            self._filesystem.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _digest(self, name: str) -> str:
        with self._filesystem.open(self._path(name), "rb", block_size=_BLOCK) as file:
            return digest_of(file)

    def _check_kept(self, actual: str, digest: str) -> None:
        if actual != digest:
            raise StoreError(
                f"{digest} was written to {self.location}, which keeps other bytes ({actual}); try again, "
                "and choose another place if it happens again"
            )

    def _undo(self, unfinished: str | None, name: str, digest: str) -> None:
        """Removes what a failed write left, as far as the filesystem still answers."""
        with contextlib.suppress(Exception):
            if unfinished is not None:
                self.remove(unfinished)
        with contextlib.suppress(Exception):
            # An object that was whole before is left: it is still what its name says.
            if self.check(digest) == "altered":
                self.remove(name)

    def _file(self, info: dict[str, Any]) -> StoreFile | None:
        if info.get("type") != "file" or info.get("islink"):
            return None
        name = "/".join(str(info["name"]).split("/")[-3:])
        return store_file(name, int(info.get("size") or 0), _written(info))

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except RegistryError:
            raise
        except Exception as error:  # of whatever kind the filesystem's author chose
            raise StoreError(
                f"{what} ({_said(error, self._uri)}); check the place, the network and who you are there"
            ) from error


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

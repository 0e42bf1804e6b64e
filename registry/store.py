"""Where the bytes of released models lie: a folder of objects, each named by its own sha256.

An object is written beside its place, flushed to the disk and moved there, so that its name either
holds all of it or nothing. What a killed process leaves behind starts with a dot and is never read.
"""

import os
import secrets
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from registry.bundle.folder import flush_folder
from registry.bundle.schema import sha256
from registry.errors import InvalidName, ObjectCorrupt, ObjectMissing, StoreError

State = Literal["intact", "missing", "altered"]


def open_store(place: str) -> "Store":
    """The store at a path or a `file://` address.

    Raises:
        InvalidName: another kind of address.
    """
    scheme, colon, _ = place.partition("://")
    if not colon:
        return Store(Path(place).absolute())
    address = urlsplit(place)
    if scheme.lower() != "file" or address.netloc not in ("", "localhost") or not address.path:
        raise InvalidName(
            f"the store {place!r} cannot be used; name a folder, or file:///path/to/folder. "
            "Other kinds of storage are not supported"
        )
    return Store(Path(unquote(address.path)))


class Store:
    """A folder of objects, safe to share between threads and processes.

    Attributes:
        folder: where it is; made when the first object is put there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Keeps `content` and returns its digest; an altered object of that name is put right.

        Raises:
            StoreError: the disk refuses.
        """
        digest = sha256(content)
        path = self.path(digest)
        try:
            if self.check(digest) != "intact":
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
        """The object's bytes, which are those that were put there.

        Raises:
            ObjectMissing: it is not there.
            ObjectCorrupt: it was altered.
            StoreError: it cannot be read.
        """
        path = self.path(digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(f"object {digest} is not in {self.folder}") from error
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
        if (actual := sha256(content)) != digest:
            raise ObjectCorrupt(f"object {digest} in {self.folder} was altered: its bytes have {actual}")
        return content

    def has(self, digest: str) -> bool:
        """Whether the object is there, altered or not."""
        return self.path(digest).is_file()

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

    def path(self, digest: str) -> Path:
        """Where the object lies: `objects/ab/<64 hex digits>`."""
        name = digest.removeprefix("sha256:")
        return self.folder / "objects" / name[:2] / name


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

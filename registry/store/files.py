"""The files of a store, by their names: objects, and what is being written or was left half-written."""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

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

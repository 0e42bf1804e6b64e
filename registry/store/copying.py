"""Copies of files by pieces, hashed as they are copied, so that no file is held in memory."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from registry.errors import StoreError

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

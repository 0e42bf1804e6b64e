"""Atomic writes: files and folders that are there whole or not at all, whenever the machine stops."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.bundle.folder import flush_folder


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on failure it is removed.

    Whoever writes the temporary file flushes it to the disk before leaving the block.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        yield temporary
        temporary.replace(path)
        flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def build_folder_once(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that becomes `path`, unless somebody else was first.

    Concurrent builders of the same content each fill a folder of their own; the first to finish wins, and
    the others' work is thrown away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
        flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync_file(path: Path) -> None:
    """Flush the content of `path` to disk (fsync)."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _beside(path: Path) -> Path:
    """A new name in the folder of `path`, hidden, that no other writer uses."""
    return path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")

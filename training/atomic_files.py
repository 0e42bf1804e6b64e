"""Atomic file writes: a file is there whole or not at all."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError

from registry.bundle.folder import flush_folder
from training.errors import CheckpointError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name beside `path`, sync it to disk, and rename it.

    A kill at any instant leaves the old file or the new one.

    Raises:
        CheckpointError: when the disk does not take it; what was there before is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        flush_folder(path.parent)
    except (OSError, SafetensorError) as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise CheckpointError(
            f"cannot write {path}: {error}; nothing that was there is lost: free some disk space, or make "
            "the folder writable, and continue with --resume"
        ) from error


def write_text(path: Path, text: str) -> None:
    """`write_whole` for text."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """`write_whole` for bytes."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_whole(path, write)

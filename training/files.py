"""Files that are there whole or not at all, locks on them, and names from elsewhere that may become one."""

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import AfterValidator
from safetensors import SafetensorError

from registry.bundle.folder import flush_folder
from training.errors import CheckpointError, MessageError, public


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under a temporary name next to `path`, sync it to disk, and rename it.

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


PAUSE = 0.05  # seconds between two tries


def locked_within(file: IO[Any], seconds: float) -> bool:
    """Take a file's lock until it is closed, waiting at most `seconds`; return whether it was acquired."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(PAUSE)
        else:
            return True


LONGEST = 200  # bytes; file systems take 255, and endings are added
BESIDE = frozenset(" -._+=@%,")  # beside letters and digits
SHOWN = 40  # characters of a name that is refused


def plain_segment(name: str, what: str = "a name") -> str:
    """The name, where it is one plain path segment: it names something in its folder and nothing elsewhere.

    Letters, digits and a few signs, none of which any file system reads as more; no dot at either end, since
    `..` leads out and a file that begins with one is hidden; no blank there, since some systems drop it.

    Args:
        name: as it came.
        what: whose name it is, for the message.

    Raises:
        MessageError: it is none.
    """
    fits = (
        0 < len(name.encode("utf-8", "surrogatepass")) <= LONGEST
        and all(letter.isalnum() or letter in BESIDE for letter in name)
        and not name.startswith((".", " "))
        and not name.endswith((".", " "))
    )
    if not fits:
        raise public(
            MessageError(
                f"{what} is {name[:SHOWN]!r}, which is no plain name: letters, digits and "
                f"{''.join(sorted(BESIDE))!r}, at most {LONGEST} bytes, no dot or blank at either end; "
                "nothing was opened under it"
            )
        )
    return name


PlainName = Annotated[str, AfterValidator(plain_segment)]

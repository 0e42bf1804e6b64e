"""What the package writes and says: files that are there whole or not at all, progress, notes, long lists."""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from registry.bundle.folder import flush_folder
from registry.bundle.text import on_one_line
from training.progress import counting

LISTED = 20  # how many of many problems a message spells out


def listing(problems: Sequence[str]) -> str:
    """The first `LISTED` problems, one per line, and how many more there are."""
    lines = [f"  {on_one_line(problem)}" for problem in problems[:LISTED]]
    if len(problems) > LISTED:
        lines.append(f"  ... and {len(problems) - LISTED} more")
    return "\n".join(lines)


def listing_by_cause(causes: Mapping[str, Sequence[str]]) -> str:
    """By cause, with how many there are of it: the first `LISTED` problems, and how many more there are."""
    return "\n".join(
        f"{len(problems)}: {on_one_line(cause)}\n{listing(problems)}" for cause, problems in causes.items()
    )


progress = counting
"""Yields a function to call with the number of items done; progress goes to standard error."""


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it replaces `path`, on failure it is removed.

    The caller must flush the temporary file to the disk before leaving the block.
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
    """Yield a temporary folder next to `path` that becomes `path`, unless another process was first.

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


class Note(str):
    """A note as the owner of the table reads it.

    Attributes:
        plain: the same without a word of the table, a file's name or a cell: it may be handed on.
    """

    __slots__ = ("plain",)
    plain: str

    def __new__(cls, text: str, plain: str) -> "Note":
        """The note `text`, and what of it may be handed on."""
        made = super().__new__(cls, text)
        made.plain = plain
        return made

    def __reduce__(self) -> tuple[type["Note"], tuple[str, str]]:
        """Copies, also those of `asdict` and in other processes, are made with both texts."""
        return type(self), (str(self), self.plain)


def plain_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """What may be handed on of notes; of those that do not say it, how many there are."""
    plain = [note.plain for note in notes if isinstance(note, Note)]
    if others := len(notes) - len(plain):
        plain.append(f"{others} further notes on how tables were read are in the log")
    return tuple(plain)

"""The archive file of a release: a reproducible zip of stored (not compressed) entries.

Entries have one time, one mode and one order, so the same release gives the same file. A file is read
only if it was written so. That leaves nothing to attack a reader with: names come from a short list, so
none leads out of a folder; nothing is unpacked to a disk, so links mean nothing, and are refused all
the same; nothing is compressed, so a file never holds more than its own size.
"""

import contextlib
import os
import re
import secrets
import stat
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from registry.archive.index import MAX_ONNX_BYTES, MAX_TEXT_BYTES
from registry.bundle.folder import flush_folder
from registry.errors import ArchiveError, ArchiveRefused
from registry.names import INDEX_FILE

_MAX_BYTES: Mapping[str, int] = {
    INDEX_FILE: MAX_TEXT_BYTES,
    "manifests": MAX_TEXT_BYTES,
    "models": MAX_ONNX_BYTES,
    "signatures": MAX_TEXT_BYTES,
}
_NAME = re.compile(
    rf"({re.escape(INDEX_FILE)})|(manifests)/[0-9a-f]{{64}}\.json|(models)/[0-9a-f]{{64}}\.onnx"
    r"|(signatures)/[0-9a-f]{64}",
    flags=re.ASCII,
)
_MAX_ENTRIES = 10_000  # entries
_MODE = stat.S_IFREG | 0o644
_UNIX = 3  # wherever this runs
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell
_ZIP64 = b"\x01\x00"  # how the one extra field starts that large files need
_UNREADABLE = (zipfile.BadZipFile, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError)


def write_container(path: Path, files: Iterable[tuple[str, bytes]]) -> int:
    """Writes an archive of these files, in this order, atomically; returns the bytes written.

    Raises:
        ArchiveError: the disk refuses.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with unfinished.open("xb") as target:
                with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
                    for name, content in files:
                        entry = zipfile.ZipInfo(name, _TIME)
                        entry.create_system = _UNIX
                        entry.external_attr = _MODE << 16
                        archive.writestr(entry, content)
                target.flush()
                os.fsync(target.fileno())
                size = target.tell()
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        flush_folder(path.absolute().parent)
    except OSError as error:
        raise ArchiveError(
            f"{path} cannot be written ({error.strerror}); check the disk, the folder and its permissions"
        ) from error
    return size


@dataclass(frozen=True)
class Container:
    """A validated archive, open for reading.

    Attributes:
        sizes: the bytes of each file in it, by name, the first first.
    """

    sizes: Mapping[str, int]
    _archive: zipfile.ZipFile

    def read(self, name: str) -> bytes:
        """The content of one file in the archive.

        Raises:
            ArchiveRefused: its bytes are not those that were written.
        """
        try:
            return self._archive.read(name)
        except (*_UNREADABLE, OSError) as error:
            raise ArchiveRefused(f"{name} cannot be read ({error}); fetch the file again") from error


@contextlib.contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Opens an archive and validates the list of its entries; nothing else is read yet.

    Raises:
        ArchiveError: it cannot be opened.
        ArchiveRefused: it is no zip, or not one that was written as we write them.
    """
    try:
        length = path.stat().st_size
        source = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read ({error.strerror}); name a file of `export`") from error
    with source:
        try:
            archive = zipfile.ZipFile(source)
        except (*_UNREADABLE, OSError) as error:
            raise ArchiveRefused(f"{path} is no release ({error}); name a file of `export`") from error
        with archive:
            yield Container(_checked_sizes(path, archive, length), archive)


def _checked_sizes(path: Path, archive: zipfile.ZipFile, length: int) -> dict[str, int]:
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise ArchiveRefused(f"{path} holds {len(entries):,} files; a release holds at most {_MAX_ENTRIES:,}")
    sizes: dict[str, int] = {}
    for entry in entries:
        if (wrong := _defect(entry, sizes)) is not None:
            raise ArchiveRefused(
                f"{path} holds {entry.orig_filename!r}, {wrong}; take the file that `export` wrote, as it is"
            )
        sizes[entry.filename] = entry.file_size
    if next(iter(sizes), None) != INDEX_FILE:
        raise ArchiveRefused(f"{path} does not begin with {INDEX_FILE}; name a file of `export`")
    if archive.comment or sum(sizes.values()) > length:
        raise ArchiveRefused(
            f"{path} has {length:,} bytes and claims {sum(sizes.values()):,}, or has a comment; take the "
            "file that `export` wrote, as it is"
        )
    return sizes


def _defect(entry: zipfile.ZipInfo, seen: Mapping[str, int]) -> str | None:
    """Why an entry is not as we write them; None where it is."""
    known = _NAME.fullmatch(entry.orig_filename)
    if known is None or entry.filename != entry.orig_filename:
        return "which is no name of a release's file"
    if entry.filename in seen:
        return "twice"
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        return f"compressed from {entry.file_size:,} bytes to {entry.compress_size:,}: nothing in it may be"
    if entry.date_time != _TIME or entry.create_system != _UNIX:
        return "with a time or system of its own"
    if entry.flag_bits or entry.comment or (entry.extra and not entry.extra.startswith(_ZIP64)):
        return "with flags, a comment or extra fields"
    if entry.external_attr >> 16 != _MODE:
        return f"of mode {entry.external_attr >> 16:o}: links, folders and programs have no place in it"
    limit = _MAX_BYTES[str(known[known.lastindex or 0])]
    if entry.file_size > limit:
        return f"of {entry.file_size:,} bytes: at most {limit:,} are allowed"
    return None

"""The files of a folder: in it, in its sub-folders, and in the zip files beside its tables."""

import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from clients.data.pictures.files import ZIP_MARK, UnreadablePictureError
from clients.data.pictures.names import PictureNames
from clients.data.pictures.suffixes import SUFFIXES

_UTF8 = 0x800  # a member's flag: its name is in UTF-8


@dataclass
class FolderFiles:
    """Files of a folder, as manifests in it write them.

    Attributes:
        places: their paths, with slashes; members of zip files behind `::`.
        aliases: of some members of zip files, the name that was meant: a zip file of a Mac has names in UTF-8
            and does not say so.
        closed: folders that may not be looked into.
    """

    places: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    @property
    def names(self) -> PictureNames:
        """The same files, to be found by what tables call them."""
        return PictureNames(self.places, self.aliases)

    @property
    def pictures(self) -> list[str]:
        """Those that are pictures by their suffix."""
        return [place for place in self.places if PurePosixPath(place).suffix.lower() in SUFFIXES]

    def add_members(self, archive: Path, shown: str) -> None:
        """Take the members of a zip file, which manifests call `shown`.

        Raises:
            UnreadablePictureError: it is none that can be read.
        """
        try:
            with zipfile.ZipFile(archive) as file:
                members = [member for member in file.infolist() if not member.is_dir()]
        except (zipfile.BadZipFile, OSError) as error:
            raise UnreadablePictureError(f"no zip file that can be read ({error})") from error
        for member in members:
            if not _hidden(member.filename):
                place = f"{shown}{ZIP_MARK}{member.filename}"
                self.places.append(place)
                if meant := _meant(member):
                    self.aliases[place] = f"{shown}{ZIP_MARK}{meant}"


def files_of(folder: Path) -> FolderFiles:
    """Every file in `folder`, its sub-folders and the zip files in it; hidden ones are left out.

    Raises:
        UnreadablePictureError: a zip file cannot be read.
    """
    found = FolderFiles()
    archives = []
    for path in _walk(folder, set(), found.closed):
        if path.parent == folder and path.suffix.lower() == ".zip":
            archives.append(path)
        else:
            found.places.append(path.relative_to(folder).as_posix())
    for archive in archives:
        try:
            found.add_members(archive, archive.name)
        except UnreadablePictureError as error:
            raise UnreadablePictureError(f"{archive} is {error}") from error
    return found


def _walk(folder: Path, seen: set[str], closed: list[str]) -> Iterator[Path]:
    """The files in and below a folder in order of their names; links are followed, each folder once."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                (entry for entry in entries if not _hidden(entry.name)), key=lambda entry: entry.name
            )
    except PermissionError:
        closed.append(str(folder))
        return
    for entry in found:
        if _is(entry.is_file):
            yield folder / entry.name
    # Links come last, so that a folder which is there under two names is taken under its own.
    for entry in sorted(found, key=lambda entry: (entry.is_symlink(), entry.name)):
        if _is(entry.is_dir):
            yield from _walk(folder / entry.name, seen, closed)


def _is(asked: Callable[[], bool]) -> bool:
    """What a folder's entry says of itself; no where it cannot, as a link that leads to itself."""
    try:
        return asked()
    except OSError:
        return False


def _hidden(name: str) -> bool:
    """Whether a file is another system's own: `._a.jpg` and `__MACOSX` of Macs, `.DS_Store`."""
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") for part in parts) or "__MACOSX" in parts


def _meant(member: zipfile.ZipInfo) -> str:
    """The name of a member that is UTF-8 without saying so; nothing where it is not."""
    if member.flag_bits & _UTF8 or member.filename.isascii():
        return ""
    try:
        return member.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return ""


def files_beside(folder: Path) -> list[str]:
    """The names of the files that lie in `folder` itself; hidden ones are left out."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not _hidden(entry.name) and _is(entry.is_file))

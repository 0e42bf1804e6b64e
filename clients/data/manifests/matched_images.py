"""From a manifest's images that are not there to the files that they mean.

A manifest goes from Windows to Linux, from a Mac to a share, through a spreadsheet. Where its `image` is not
there and exactly one file in the same place fits, that one is taken and said. Other folders are not searched:
only what has a Windows drive or a share in front is looked for by its name, where the other pictures are.
"""

import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from clients.data.pictures.arrays import SUFFIX as ARRAYS
from clients.data.pictures.files import ZIP_MARK, UnreadablePictureError
from clients.data.pictures.folder import FolderFiles, files_beside
from clients.data.pictures.names import NameMatch, is_foreign, is_url, matches_said, slashed


def match_images(images: Sequence[str], folder: Path) -> tuple[list[str], list[str]]:
    """The images with those replaced that are not there and mean one file that is.

    Args:
        images: as a manifest has them.
        folder: what relative paths start from.

    Returns:
        The images in the same order, and what to say of those that were matched.
    """
    looked = _Places(folder)
    absent = [place for place, image in enumerate(images) if image and not looked.holds(image)]
    if not absent:
        return list(images), []
    missing = set(absent)
    others = (image for place, image in enumerate(images) if place not in missing)
    index = looked.around([images[place] for place in absent], others).names
    matched, found = list(images), []
    for place in absent:
        match = index.find(images[place], anywhere=False)
        found.append(match if match.place else NameMatch())
        matched[place] = match.place or images[place]
    return matched, matches_said([images[place] for place in absent], found)


class _Places:
    """Files by where they lie, each folder and zip file looked into once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members: dict[str, frozenset[str]] = {}

    def holds(self, image: str) -> bool:
        """Whether `image` is there; arrays of a `.npz` file are not looked at, and pass."""
        name, mark, member = image.partition(ZIP_MARK)
        if not mark:
            try:
                return (self._folder / name).is_file()
            except OSError:  # too long for a name
                return False
        if name.lower().endswith(ARRAYS):
            return True
        if name not in self._members:
            files = FolderFiles()
            try:
                files.add_members(self._folder / name, name)
            except UnreadablePictureError:
                files.places.clear()
            self._members[name] = frozenset(files.places)
        return f"{name}{ZIP_MARK}{member}" in self._members[name]

    def around(self, absent: Iterable[str], present: Iterable[str]) -> FolderFiles:
        """The files that images which are not there may mean."""
        folders: set[str] = set()
        files = FolderFiles()
        foreign = False
        for image in absent:
            name, mark, _ = image.partition(ZIP_MARK)
            if is_url(image) or name.lower().endswith(ARRAYS):
                continue
            if mark and name in self._members:
                files.places += sorted(self._members[name])
            elif is_foreign(image):
                foreign = True
            elif (real := self._resolved(slashed(name))) is not None:
                folders.add(real)
        if foreign:
            folders |= {str(PurePosixPath(image).parent) for image in present if ZIP_MARK not in image} | {
                "."
            }
        for shown in sorted(folders):
            try:
                names = files_beside(self._folder / shown)
            except OSError:
                continue
            files.places += [str(PurePosixPath(shown) / name) for name in names]
        return files

    def _resolved(self, path: str) -> str | None:
        """The folder of `path` as it is spelt on disk; None where there is none, or several."""
        try:
            return self._folder_of(path)
        except OSError:  # too long for a name
            return None

    def _folder_of(self, path: str) -> str | None:
        shown = PurePosixPath("/" if path.startswith("/") else ".")
        for part in PurePosixPath(path).parent.parts:
            if part == "/":
                continue
            if not (self._folder / shown / part).is_dir():
                alike = self._alike(shown, part)
                if len(alike) != 1:
                    return None
                part = alike[0]
            shown /= part
        return str(shown)

    def _alike(self, shown: PurePosixPath, part: str) -> list[str]:
        """The folders in one that are spelt like `part` but for case and Unicode form."""
        try:
            with os.scandir(self._folder / shown) as entries:
                return [
                    entry.name for entry in entries if entry.is_dir() and _plain(entry.name) == _plain(part)
                ]
        except OSError:
            return []


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split()).casefold()

"""Why pictures cannot be used, by cause: ten thousand missing files are one line, not ten thousand."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clients.data.pictures.files import ZIP_MARK, PictureFile, UnreadablePictureError
from clients.data.pictures.names import FolderFiles, PictureNames, files_beside, is_foreign, without_zeros

MISSING = "there is no such file"
NOT_IN_ARCHIVE = "the zip file holds no such picture"
EMPTY = "the file is empty (0 bytes); copy or export it again"
OTHER_SUFFIX = "there is no such file, but one with another suffix"
ZEROS = (
    "there is no such file, but one whose number has other leading zeros, which spreadsheets drop; format "
    "the column as text and export again"
)
SEVERAL = "several files fit the name, and none is taken; keep one, or name it exactly"
ADDRESS = "an address, from which nothing is fetched; fetch it yourself and name the file"
FOREIGN = "a Windows drive or share that is not here, and no file of that name is where the others are"
UNREADABLE = "the file cannot be read"
NOWHERE = "a link that leads nowhere; copy the picture itself"

_ADDRESS = re.compile(r"(^|/)(https?|ftps?|s3|gs|file):/", re.IGNORECASE)

# What decoders and readers say, by what tells it apart, and the cause that it is an instance of.
_CAUSES: tuple[tuple[str, str], ...] = (
    (r"no bytes at all", EMPTY),
    (r"holds no such picture", NOT_IN_ARCHIVE),
    (r"bytes end|header promises", "the picture's bytes end early; copy or export the whole file again"),
    (r"^the picture is [^;:]*, which is (not )?read", ""),
    (
        r"bytes that are no picture",
        "no picture, whatever its name says: JPEG, PNG, WebP, HEIC, AVIF and DICOM are read",
    ),
    (r"does not decode", "the picture does not decode; open it elsewhere and save it anew"),
    (r"animated", ""),
    (r"pixels", "the picture has more pixels than are accepted; make a smaller copy"),
    (r"its file has", "the file is larger than any picture that is read"),
    (r"cannot be read", UNREADABLE),
)


@dataclass(frozen=True)
class UnusablePicture:
    """A picture that cannot be used.

    Attributes:
        shown: how its owner knows it.
        file: where it is.
        reason: what reading or decoding it said.
    """

    shown: str
    file: PictureFile
    reason: str


@dataclass(frozen=True)
class Cause:
    """Why a picture cannot be used: what it shares with others, and what is its own, if anything is."""

    common: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.common} ({self.detail})" if self.detail else self.common


def find_causes(pictures: Iterable[UnusablePicture]) -> list[Cause]:
    """The cause of each; for missing ones, the other files in their folder are looked at."""
    beside: dict[Path, PictureNames] = {}
    causes = []
    for picture in pictures:
        if picture.reason == MISSING or "holds no such picture" in picture.reason:
            causes.append(_why_missing(picture, beside))
        else:
            causes.append(_of_reason(picture.reason))
    return causes


def by_cause(pictures: Iterable[UnusablePicture]) -> dict[str, list[str]]:
    """By cause, the most frequent first: the pictures, each with what is its own alone."""
    known = list(pictures)
    groups: dict[str, list[str]] = {}
    for picture, cause in zip(known, find_causes(known), strict=True):
        detail = f": {cause.detail}" if cause.detail else ""
        groups.setdefault(cause.common, []).append(f"{picture.shown}{detail}")
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _of_reason(reason: str) -> Cause:
    """The cause that a reader's or decoder's words are an instance of."""
    for mark, common in _CAUSES:
        if re.search(mark, reason):
            return Cause(common, _own(reason, common)) if common else Cause(reason)
    return Cause(reason)


def _own(reason: str, common: str) -> str:
    """What `reason` says of one picture that its cause does not."""
    if common == EMPTY:
        return ""
    return reason if common == UNREADABLE else re.split("[:;] ", reason)[0]


def _why_missing(picture: UnusablePicture, beside: dict[Path, PictureNames]) -> Cause:
    """Why a file is not there, from what is."""
    file = picture.file
    if _ADDRESS.search(picture.shown):
        return Cause(ADDRESS)
    if not file.member and file.path.is_symlink():
        return Cause(NOWHERE, str(file.path.readlink()))
    container = file.path if file.member else file.path.parent
    if container not in beside:
        beside[container] = _names_in(container, archive=bool(file.member))
    name = file.member or file.path.name
    names = beside[container]
    match = names.find(name)
    if match.several:
        return Cause(SEVERAL, ", ".join(match.several))
    like = (match.place,) if match.place else names.like(name)
    if like:
        common = ZEROS if without_zeros(name, like[0]) else OTHER_SUFFIX
        return Cause(common, ", ".join(like[:2]))
    if is_foreign(picture.shown):
        return Cause(FOREIGN)
    if file.member and not file.path.is_file():
        return Cause("there is no such zip file", str(file.path))
    return Cause(NOT_IN_ARCHIVE if file.member else MISSING)


def _names_in(container: Path, *, archive: bool) -> PictureNames:
    """The files of a folder, or the members of a zip file; none where it cannot be read."""
    files = FolderFiles()
    try:
        if archive:
            files.add_members(container, container.name)
            prefix = f"{container.name}{ZIP_MARK}"
            return PictureNames([place.removeprefix(prefix) for place in files.places])
        return PictureNames(files_beside(container))
    except (OSError, UnreadablePictureError):
        return PictureNames(())


def counted(groups: Mapping[str, list[str]], examples: int) -> list[dict[str, object]]:
    """Groups for programs: cause, count and the first examples."""
    return [
        {"cause": cause, "count": len(shown), "examples": shown[:examples]} for cause, shown in groups.items()
    ]

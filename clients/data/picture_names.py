"""From what a table calls a picture to the file that it means, where exactly one fits.

A file fits a name if both are alike but for what spreadsheets, other systems and people change: backslashes,
the Unicode form of letters (NFC or NFD), case, blanks, the suffix of a picture that is read (`.jpeg` for
`.jpg`), the folders in front, a Windows drive or share. Numbers are never compared as numbers: `12` is not
`0012`. Of the files that fit, those count whose folders agree with the name from the right for longest, and
of several in one folder the one that is spelt most alike.

Pictures that cannot be used are grouped by cause: ten thousand missing files are one line, not ten thousand.
"""

import os
import re
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from clients.data.output import Note
from clients.data.picture_files import READ_SUFFIXES, SUFFIXES, ZIP_MARK, PictureFile, UnreadablePictureError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_FOREIGN = re.compile(r"[A-Za-z]:[\\/]|\\\\|//")


@dataclass(frozen=True)
class NameMatch:
    """The file that a name means.

    Attributes:
        place: the file, as the names of files were given; empty where none fits, or several.
        how: in what the name differs from it; empty where it does not, or where there is none.
        several: the files that fit alike, where there are several.
        elsewhere: whether the file lies in another folder than the name says.
    """

    place: str = ""
    how: str = ""
    several: tuple[str, ...] = ()
    elsewhere: bool = False


def is_url(name: str) -> bool:
    """Whether `name` is an address on the network, from which nothing is fetched."""
    return _URL.match(name) is not None


def is_foreign(name: str) -> bool:
    """Whether `name` begins with a Windows drive or a share."""
    return _FOREIGN.match(name) is not None


def slashed(name: str) -> str:
    """A name as a path of this system: stripped, with slashes, without `./` in front."""
    path = name.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path


class PictureNames:
    """Files by their names, to find those that tables mean."""

    def __init__(self, places: Iterable[str], aliases: Mapping[str, str] | None = None) -> None:
        """Take the files.

        Args:
            places: as manifests write them, relative to one folder; members of zip files behind `::`.
            aliases: of some places, the name under which it is also known.
        """
        self._names = {place: (aliases or {}).get(place, place) for place in places}
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for place, name in self._names.items():
            self._by_stem[_stem_key(_parts(name)[-1])].append(place)

    def find(self, name: str, *, anywhere: bool = True) -> NameMatch:
        """The file that `name` means.

        Args:
            name: as a table has it.
            anywhere: whether the file may lie in another folder than the name says.
        """
        if name in self._names:
            return NameMatch(name)
        wanted = _parts(slashed(name))
        if not wanted or is_url(name):
            return NameMatch()
        agreeing: dict[str, int] = {}  # by file that fits, in how many parts
        for place in self._by_stem.get(_stem_key(wanted[-1]), ()):
            parts = _parts(self._names[place])
            count = _agreeing(wanted, parts)
            there = anywhere or is_foreign(name) or count == len(wanted) == len(parts)
            if there and (not _suffix(wanted[-1]) or _may_be_swapped(wanted[-1], parts[-1])):
                agreeing[place] = count
        longest = max(agreeing.values(), default=0)
        best = [place for place, count in agreeing.items() if count == longest]
        if len({_parts(place)[:-1] for place in best}) == 1:
            alike = [_tightness(wanted[-1], _parts(self._names[place])[-1]) for place in best]
            best = [place for place, tightness in zip(best, alike, strict=True) if tightness == max(alike)]
        if len(best) != 1:
            return NameMatch(several=tuple(best))
        meant = self._names[best[0]]
        how = _difference(name, meant, longest)
        if meant != best[0]:
            how.append("another encoding of the names in the zip file")
        return NameMatch(best[0], " and ".join(how), elsewhere=longest < len(wanted))

    def like(self, name: str) -> tuple[str, ...]:
        """The files with names similar to `name`, as suggestions where it is not found."""
        wanted = _parts(slashed(name))
        if not wanted:
            return ()
        key = _stem_key(wanted[-1])
        if key in self._by_stem or not key.isdecimal():
            return tuple(self._by_stem.get(key, ()))
        return tuple(
            place
            for stem, places in self._by_stem.items()
            if stem.isdecimal() and stem.lstrip("0") == key.lstrip("0")
            for place in places
        )


def matches_said(names: Sequence[str], found: Sequence[NameMatch]) -> list[str]:
    """One line for each way in which names differ from the files they mean, with a count and an example."""
    ways: dict[str, list[str]] = defaultdict(list)
    for name, match in zip(names, found, strict=True):
        if match.how:
            ways[match.how].append(f"{name!r} for {match.place!r}")
    return [
        Note(
            f"{len(examples)} pictures are named with {how}, e.g. {examples[0]}",
            f"{len(examples)} pictures are named with {how}",
        )
        for how, examples in ways.items()
    ]


def without_zeros(name: str, place: str) -> bool:
    """Whether a name and a file are one number, written with and without leading zeros."""
    one, other = (_stem_key(_parts(slashed(text))[-1]) for text in (name, place))
    return one != other and one.isdecimal() and other.isdecimal() and one.lstrip("0") == other.lstrip("0")


def _parts(name: str) -> tuple[str, ...]:
    """Folders and file of a name; a zip file counts as a folder."""
    return tuple(part for part in name.replace(ZIP_MARK, "/").split("/") if part)


def _composed(text: str) -> str:
    """Letters in one Unicode form, and every blank as a plain one."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _suffix(name: str) -> str:
    """The suffix of a name where it is one of pictures; nothing where it is not."""
    suffix = PurePosixPath(_composed(name)).suffix
    return suffix if suffix.lower() in SUFFIXES else ""


def _stem_key(name: str) -> str:
    """What all spellings of one file's name share."""
    return _composed(name).removesuffix(_suffix(name)).casefold()


def _may_be_swapped(name: str, other: str) -> bool:
    """Whether the suffixes of two names are the same, or both of pictures that are read."""
    one, two = _suffix(name).lower(), _suffix(other).lower()
    return one == two or (one in READ_SUFFIXES and two in READ_SUFFIXES)


def _agreeing(wanted: Sequence[str], place: Sequence[str]) -> int:
    """How many parts of two names agree from the right, the file's own name being one of them."""
    count = 1
    for one, other in zip(reversed(wanted[:-1]), reversed(place[:-1]), strict=False):
        if _composed(one).casefold() != _composed(other).casefold():
            break
        count += 1
    return count


def _tightness(name: str, other: str) -> int:
    """How alike names are: 3 the same, 2 but for Unicode and blanks, 1 but for case, 0 but for the suffix."""
    one, two = _composed(name), _composed(other)
    return (name == other) + (one == two) + (one.casefold() == two.casefold())


def _difference(name: str, place: str, agreeing: int) -> list[str]:
    """In what a name differs from that of the file it means, in words."""
    wanted, foreign = _parts(slashed(name)), is_foreign(name)
    one, other = ("/".join(parts[-agreeing:]) for parts in (wanted, _parts(place)))
    suffix, kept = _suffix(one), _suffix(other)
    bare, of_file = (_composed(text).removesuffix(_suffix(text)) for text in (one, other))
    swapped = bool(suffix) and suffix.lower() != kept.lower()
    forms, blanks = (
        [unicodedata.is_normalized("NFC", text) for text in (one, other)],
        [[letter for letter in text if letter.isspace()] for text in (one, other)],
    )
    ways = {
        "a Windows drive or share in front": foreign,
        "another folder": agreeing < len(wanted) and not foreign,
        "backslashes": "\\" in name and not foreign,
        "`./` in front": name.strip().startswith((".\\", "./")),
        "another Unicode form (NFC or NFD)": forms[0] != forms[1],
        "other blanks": blanks[0] != blanks[1],
        "other case": bare != of_file or (suffix and suffix != kept and not swapped),
        f"{suffix} for {kept}": swapped,
    }
    return [said for said, differs in ways.items() if differs]


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

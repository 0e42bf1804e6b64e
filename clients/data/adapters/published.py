"""Reading published data sets: CSV tables, and pictures in a folder or a zip file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from clients.data.adapters.adapter import Repeats, TableAdapter
from clients.data.delimited import DelimitedTable, UnknownEncodingError, UnreadableTableError, read_delimited
from clients.data.errors import AdapterError
from clients.data.manifest import COLUMNS, DUPLICATE_GROUP, Manifest, Row, name_groups
from clients.data.output import Note, listing
from clients.data.picture_files import SUFFIXES, UnreadablePictureError
from clients.data.picture_names import NameMatch, files_of, is_url, matches_said, slashed
from registry.bundle.skin_tone import read_tone
from registry.bundle.text import nearest


class Line(dict[str, str]):
    """The cells of a table's line by their columns, and its number in the file, counted from 1."""

    number: int = 0


def read_table(
    path: Path,
    required: Sequence[str],
    *,
    key: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    anybodys: bool = False,
    repeats: Repeats = "refuse",
    notes: list[str],
) -> list[Line]:
    """The lines of a CSV file with at least the columns `required`, cells stripped.

    Args:
        path: the file.
        required: the columns that must be there, under the names that their cells get; a header that differs
            in case or blanks alone will do.
        key: of those, the column that names each line: it is filled, and equal lines count once.
        encoding: of the file; by default what it shows.
        delimiter: between cells; by default what the header shows.
        anybodys: whether it is a user's table rather than a published one: lines that hold only delimiters
            are left out and reported, and messages name the options `encoding` and `delimiter`.
        repeats: what becomes of lines with one key that say different things in the columns `required`.
        notes: takes what was taken for granted or left out.

    Raises:
        AdapterError: the file is not there, is no such table, lacks a column, has no lines or ragged ones, or
            `key` does not hold.
    """
    if not path.is_file():
        raise AdapterError(f"{path} does not exist; put the published table there")
    try:
        table = read_delimited(path, required, encoding=encoding, delimiter=delimiter)
        notes += [
            Note(f"{note}{OPTIONS}", note.plain)
            if anybodys and isinstance(note, Note) and note == table.read_as
            else note
            for note in table.notes
        ]
        columns = _columns(path, table, required, notes)
    except UnknownEncodingError as error:
        named = ", or name its encoding: `--option encoding=...`" if anybodys else ""
        raise AdapterError(f"{path} {error}{named}") from error
    except UnreadableTableError as error:
        raise AdapterError(f"{path} {error}") from error
    if not table.lines:
        raise AdapterError(f"{path} has no line below its header; put the whole published table there")
    if table.blank and not anybodys:
        blank_lines = [f"line {number}: every cell is empty" for number in table.blank]
        raise AdapterError(f"{path} has {len(blank_lines)} problems:\n{listing(blank_lines)}")
    ragged = [f"line {line.number}: {fault}" for line in table.lines if (fault := table.fault(line))]
    if ragged:
        raise AdapterError(
            f"{path}, read as {table.how}, has {len(ragged)} lines of another length:\n{listing(ragged)}\n"
            "a cell that holds the delimiter or a line break needs quotes around it; export the table again"
        )
    lines, blanks = [], 0
    for numbered in table.lines:
        cells = [" ".join(cell.split(_NO_BREAK)) if _NO_BREAK in cell else cell for cell in numbered.cells]
        blanks += sum(_NO_BREAK in cell.strip() for cell in numbered.cells)
        line = Line({name: cell.strip() for name, cell in zip(columns, cells, strict=True) if name})
        line.number = numbered.number
        lines.append(line)
    if blanks:
        text = f"{blanks} cells have no-break spaces, which are read as plain ones"
        notes.append(Note(f"{path.name}: {text}", f"a table: {text}"))
    if key is not None:
        refuse_unnamed(path, lines, key)
        read = [(line.number, {column: line[column] for column in (key, *required)}) for line in lines]
        lines = [lines[place] for place in counted_once(path, read, key, repeats, notes)]
    return lines


_NO_BREAK = "\u00a0"
OPTIONS = " (`--option encoding=...` and `--option delimiter=...` set them)"


def _columns(path: Path, table: DelimitedTable, required: Sequence[str], notes: list[str]) -> list[str]:
    """What each column of `table` is called here: as `required` calls it, or as it stands there.

    Raises:
        AdapterError: a required column is not there, or nothing is.
        UnreadableTableError: one is there twice.
    """
    if not table.header:
        raise AdapterError(f"{path} is empty; export it again")
    found = {name: table.column(name) for name in dict.fromkeys(required)}
    missing = [name for name, column in found.items() if column is None]
    if missing:
        raise AdapterError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(table.header)} "
            f"(read as {table.how})"
        )
    renamed = {column: name for name, column in found.items() if column not in (None, name)}
    notes += [
        Note(
            f"{path.name}: column {name!r} is read from {column!r}",
            "a table: a column is read from one that is spelt in another way",
        )
        for column, name in renamed.items()
    ]
    twice = sorted({name for name in table.header if name and table.header.count(name) > 1})
    notes += [
        Note(
            f"{path.name}: the column {name!r} is there more than once; the last one counts",
            "a table: a column is there more than once; the last one counts",
        )
        for name in twice
    ]
    return [renamed.get(column, column) for column in table.header]


def refuse_unnamed(path: Path, lines: Sequence[Line], key: str) -> None:
    """Refuse a table with lines whose `key` is empty.

    Raises:
        AdapterError: lists them.
    """
    problems = [f"line {line.number}: {key} is empty" for line in lines if not line[key]]
    if problems:
        raise AdapterError(
            f"{path} has {len(problems)} problems:\n{listing(problems)}\n"
            f"a line without {key} is no picture's (a total, merged cells): fill it, or delete the line"
        )


def counted_once(
    path: Path,
    lines: Sequence[tuple[int, Mapping[str, str]]],
    key: str,
    repeats: Repeats,
    notes: list[str],
) -> list[int]:
    """The places of the lines that count: of equal lines with one key the first, of others as `repeats` says.

    Args:
        path: the table.
        lines: the number of each line in the file, and its cells.
        key: the column that names what a line is about.
        repeats: see `Repeats`.
        notes: takes how many lines are left out.

    Raises:
        AdapterError: lines with one key say different things, and these are to be refused; lists them.
    """
    first: dict[str, int] = {}
    equal, other = list[int](), list[int]()
    differing: list[str] = []
    for place, (number, cells) in enumerate(lines):
        known = first.setdefault(cells[key], place)
        if known == place:
            continue
        there, before = lines[known]
        said = [
            f"{name} {before[name]!r} and {cells[name]!r}" for name in cells if before[name] != cells[name]
        ]
        if said:
            differing.append(f"lines {there} and {number}, {key} {cells[key]}: {', '.join(said)}")
        (other if said else equal).append(place)
    if differing and repeats == "refuse":
        raise AdapterError(
            f"{path} has {len(differing)} lines that contradict an earlier one on the same picture:\n"
            f"{listing(differing)}\ntake the first of them with --keep-first, leave these pictures out with "
            "--drop-contradictions, or mend the table"
        )
    if equal:
        text = f"{len(equal)} lines repeat an earlier one and count once"
        notes.append(Note(f"{path.name}: {text}", f"a table: {text}"))
    if differing:
        gone = {lines[place][1][key] for place in other} if repeats == "drop" else set()
        what = (
            f"{len(differing)} lines contradict an earlier one on the same picture; the first counts"
            if repeats == "first"
            else f"{len(gone)} pictures are left out, for their lines contradict each other"
        )
        notes.append(Note(f"{path.name}: {what}:\n{listing(differing)}", f"a table: {what}"))
        return [place for place in first.values() if lines[place][1][key] not in gone]
    return list(first.values())


def images_of(names: Sequence[str], folder: Path, *, ending: str = "", notes: list[str]) -> list[str]:
    """The `image` of each picture that a table calls `names`, with or without their suffix.

    A picture that is not there keeps the name that its publisher gives it, so that `dermfed-data check`
    lists all that are missing at once.

    Args:
        names: what the table calls them.
        folder: where they are.
        ending: what the table's names end with and some copies' files do not (`_downsampled`).
        notes: takes how many names were matched how.

    Raises:
        AdapterError: the folder does not exist or holds a zip file that cannot be read, none of the pictures
            is there, names fit several files, or they are addresses.
    """
    addresses = [name for name in names if is_url(name)]
    if addresses:
        raise AdapterError(
            f"{len(addresses)} of {len(names)} pictures are addresses, from which nothing is fetched:\n"
            f"{listing(addresses)}\nfetch them yourself, and let the table name the files"
        )
    if not folder.is_dir():
        raise AdapterError(f"the folder {folder} does not exist; name the one that holds the pictures")
    try:
        files = files_of(folder)
    except UnreadablePictureError as error:
        raise AdapterError(f"{error}; fetch it again") from error
    index = files.names
    found = []
    for name in names:
        match = _existing(name, folder) or index.find(name)
        if ending and not match.place and not match.several:
            stem, suffix = (_stem(name), name[len(_stem(name)) :])
            match = index.find(stem.removesuffix(ending) + suffix)
        found.append(match)
    # What another line names is that line's: `test/1.jpg` is missing, and not `train/1.jpg`.
    taken = {match.place for match in found if match.place and not match.how}
    found = [NameMatch() if match.elsewhere and match.place in taken else match for match in found]
    several = [
        f"{name}: {', '.join(match.several)}"
        for name, match in zip(names, found, strict=True)
        if match.several
    ]
    if several:
        raise AdapterError(
            f"{len(several)} pictures in {folder} share a name, so the table cannot tell them apart:\n"
            f"{listing(several)}\nkeep one of each, or let the table name their folders and suffixes"
        )
    if not any(match.place for match in found):
        raise AdapterError(
            f"all {len(names)} pictures that the table names are missing: none is in {folder}, its "
            f"sub-folders or the zip files in it, which hold {len(files.pictures)} other pictures; unpack or "
            f"copy them there"
        )
    notes += matches_said(names, found)
    if files.closed:
        text = f"{len(files.closed)} folders may not be looked into"
        notes.append(Note(f"{text}, e.g. {files.closed[0]!r}", text))
    return [
        match.place or (slashed(name) if _suffixed(name) else f"{slashed(name)}.jpg")
        for name, match in zip(names, found, strict=True)
    ]


def _existing(name: str, folder: Path) -> NameMatch | None:
    """The file that lies where `name` says, within `folder` or not."""
    try:
        if not name or not (folder / name).is_file():
            return None
    except (OSError, ValueError):  # too long for a name, or no name at all
        return None
    path = Path(name)
    inside = path.is_absolute() and path.is_relative_to(folder)
    return NameMatch(path.relative_to(folder).as_posix() if inside else path.as_posix())


def _suffixed(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def _stem(name: str) -> str:
    return name.removesuffix(PurePosixPath(name).suffix) if _suffixed(name) else name


def code_of(picture: str, diagnosis: str, codes: Mapping[str, str]) -> str:
    """The code of the diagnosis that a table gives for `picture`; none for an empty cell.

    Raises:
        AdapterError: the data set has no such diagnosis; names the nearest.
    """
    if not diagnosis:
        return ""
    if diagnosis not in codes:
        raise AdapterError(f"{picture} has the diagnosis {diagnosis!r}; {nearest(diagnosis, list(codes))}")
    return codes[diagnosis]


def tone_of(picture: str, tone: str, scale: str) -> str:
    """The skin tone that a table gives for `picture`; none for an empty cell.

    Raises:
        AdapterError: the scale has no such value.
    """
    try:
        return read_tone(tone, scale) if tone else ""
    except ValueError as error:
        raise AdapterError(f"{picture}: {error}") from error


def one_hot(path: Path, key: str, notes: list[str]) -> dict[str, str]:
    """The diagnosis of each line of a table with a column per diagnosis: the one column that is 1.

    Args:
        path: the table.
        key: the column that names each line; all others are diagnoses.
        notes: as `read_table` takes it.

    Raises:
        AdapterError: a line has no diagnosis, or several, or a cell that is no number.
    """
    labels = {}
    for line in read_table(path, (key,), key=key, notes=notes):
        name = line.pop(key)
        try:
            chosen = [code for code, value in line.items() if value and float(value) == 1]
        except ValueError as error:
            raise AdapterError(f"{path}: {name}: {error}; a cell is 1 or 0") from error
        if len(chosen) != 1:
            raise AdapterError(f"{path}: {name} has {len(chosen)} diagnoses instead of one")
        labels[name] = chosen[0]
    return labels


class PublishedTable(TableAdapter):
    """A published table with a line for each picture; a subclass says what the cells of a line become.

    Attributes:
        table: its file in the folder; of several that fit, the longest name has the most columns.
        key: the column that names the picture.
    """

    table: ClassVar[str]
    key: ClassVar[str]

    def lines(self, folder: Path, *columns: str, notes: list[str]) -> list[Line]:
        """The lines of the table, which has at least `columns`.

        Raises:
            AdapterError: there is no such table, or `read_table` does not take it.
        """
        path = folder / self.table
        if "*" in self.table:
            found = sorted(folder.glob(self.table), key=lambda path: (len(path.name), path.name))
            if not found:
                raise AdapterError(
                    f"{folder} holds no {self.table.removesuffix('.csv')}.csv; put the published table there"
                )
            path = found[-1]
        return read_table(path, (self.key, *columns), key=self.key, repeats=self.repeats, notes=notes)

    def made(
        self,
        folder: Path,
        lines: Sequence[Line],
        cells: Callable[[Line], Mapping[str, str]],
        notes: list[str],
        *,
        scale: str = "",
        ending: str = "",
    ) -> Manifest:
        """The manifest with a row for each line.

        Args:
            folder: where the pictures are.
            lines: of the table.
            cells: what a line becomes, by column of the manifest.
            notes: on how the table was read.
            scale: that of the tones in `skin_tone`.
            ending: as `images_of` takes it.

        Raises:
            AdapterError: of `images_of` and `tone_of`.
        """
        images = images_of([line[self.key] for line in lines], folder, ending=ending, notes=notes)
        rows = []
        for line, image in zip(lines, images, strict=True):
            row = dict(cells(line))
            if tone := tone_of(line[self.key], row.get("skin_tone", ""), scale):
                row |= {"skin_tone": tone, "skin_tone_scale": scale}
            rows.append(row_of(image, row))
        return Manifest.of(rows, folder, notes)


def row_of(image: str, cells: Mapping[str, str]) -> Row:
    """The row of a picture with these cells by column, those of the manifest's own and others."""
    own = {column: cell for column, cell in cells.items() if column in COLUMNS}
    return Row(image, **own, extra={column: cell for column, cell in cells.items() if column not in COLUMNS})


OF_SEVERAL_CASES = {"other_cases": "", DUPLICATE_GROUP: ""}
"""The columns that `manifest_of_cases` fills, where they are to stand."""


def manifest_of_cases(
    shown: Iterable[tuple[str, Mapping[str, str]]],
    folder: Path,
    notes: list[str],
    *,
    same: Sequence[str],
    scale: str = "",
) -> Manifest:
    """The manifest of pictures some of which stand in several cases: a row for each, under its first case.

    `other_cases` names the others, and all these cases are one `duplicate_group`.

    Args:
        shown: each picture of each case, and its cells by column, `lesion_id` being the case.
        folder: where the pictures are.
        notes: on how the tables were read.
        same: the columns of which nothing is known where the cases do not agree.
        scale: that of the tones in `skin_tone`.

    Raises:
        AdapterError: of `images_of`.
    """
    held: dict[str, list[Mapping[str, str]]] = {}
    for picture, cells in shown:
        held.setdefault(picture, []).append(cells)
    cases = [[cells["lesion_id"] for cells in each] for each in held.values()]
    groups = name_groups([names for names in cases if len(names) > 1])
    images = images_of(list(held), folder, notes=notes)
    rows = []
    for image, each, (first, *others) in zip(images, held.values(), cases, strict=True):
        row = dict(each[0])
        for column in [column for column in same if column in row]:
            told = {cells[column] for cells in each} - {""}
            row[column] = told.pop() if len(told) == 1 else ""
        row["skin_tone_scale"] = scale if row.get("skin_tone") else ""
        row["other_cases"] = " ".join(dict.fromkeys(name for name in others if name != first))
        row[DUPLICATE_GROUP] = groups.get(first, "")
        rows.append(row_of(image, row))
    return Manifest.of(rows, folder, notes)

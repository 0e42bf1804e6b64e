"""Tables as spreadsheets, archives and people save them: delimiter and encoding are told from the file.

The delimiter is the one of commas, semicolons, tabs and vertical bars with which the header has the columns
that are asked for; Excel's first line `sep=;` names it. What is taken is said wherever it is not commas and
UTF-8. Nothing is padded or cut: a line with other cells than the header is told with its number.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.data.manifests.text_file import TableText, UnreadableTableError, decode_table
from clients.data.note import Note

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_SPOKEN = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SEPARATOR_LINE = re.compile(r"\"?sep=(.)\"?[ \t]*(\r\n|\r|\n|$)", re.IGNORECASE)
_MARK_WITHIN = re.compile("(?<=[\\r\\n])\ufeff")  # of a second file that was put below the first
_TITLES = 10  # how many lines may stand above a header before it is no longer looked for


@dataclass(frozen=True)
class TableLine:
    """One line of a table: its number in the file, counted from 1, and its cells as they stand there."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class DelimitedTable:
    """A table as read.

    Attributes:
        header: the names of its columns, stripped; nothing where a column has no name.
        lines: those below the header that hold anything.
        blank: the numbers of those that hold delimiters alone.
        how: encoding and delimiter, in words.
        read_as: that one of `notes` which says so; empty where they are UTF-8 and commas.
        notes: what was taken for granted, and what was left out.
    """

    header: tuple[str, ...]
    lines: tuple[TableLine, ...]
    blank: tuple[int, ...]
    how: str
    read_as: str
    notes: tuple[str, ...]

    def column(self, name: str) -> str | None:
        """The header's column that `name` means: spelt alike, or else alike but for case and blanks.

        Raises:
            UnreadableTableError: several could be meant.
        """
        same = [column for column in self.header if column == name]
        alike = same or [column for column in self.header if column and fold(column) == fold(name)]
        if len(alike) > 1:
            raise UnreadableTableError(
                f"has the column {', '.join(dict.fromkeys(alike))} more than once; keep one of each"
            )
        return alike[0] if alike else None

    def fault(self, line: TableLine) -> str:
        """What is wrong with the number of cells of `line`; nothing where it is the header's."""
        if len(line.cells) == len(self.header):
            return ""
        return f"{len(line.cells)} cells where the header has {len(self.header)}"


def read_delimited(
    path: Path, wanted: Sequence[str], *, encoding: str | None = None, delimiter: str | None = None
) -> DelimitedTable:
    """Read a table whose header should have the columns `wanted`.

    Args:
        path: the file.
        wanted: columns that tell the header and its delimiter; they need not be there.
        encoding: of the file; by default what it shows.
        delimiter: between cells; by default what the header shows.

    Raises:
        UnreadableTableError: it is no such table; the text goes after the file's name.
        OSError: it cannot be read.
    """
    read = decode_table(path.read_bytes(), encoding)
    body, named = read.text, _SEPARATOR_LINE.match(read.text)
    skipped = 0
    if named is not None:
        body, skipped = read.text[named.end() :], 1
    body, marks = _MARK_WITHIN.subn("", body)
    chosen = delimiter or (named[1] if named else None) or _sniff(body, wanted)
    try:
        lines = [TableLine(number + skipped, cells) for number, cells in _numbered(body, chosen) if cells]
    except csv.Error as error:
        raise UnreadableTableError(
            f"is not a CSV file that can be read with {_SPOKEN.get(chosen, repr(chosen))}: {error}; a quote "
            "that opens has to close, and one within a cell is doubled"
        ) from error
    header = tuple(name.strip() for name in lines[0].cells) if lines else ()
    _refuse_titles(lines, wanted)
    _refuse_quoted_whole(header)
    how = f"{read.encoding.replace('utf', 'UTF')} with {_SPOKEN.get(chosen, repr(chosen))}"
    read_as = _how_read(path, read, chosen, how)
    notes = [read_as] if read_as else []
    if marks:
        text = "byte-order marks within the file, as where several were put together, are not read"
        notes.append(_note(path, f"{marks} {text}"))
    blank = [line.number for line in lines[1:] if not any(cell.strip() for cell in line.cells)]
    if blank:
        notes.append(_note(path, f"{_lines(blank)} hold only delimiters and are left out"))
    empty = set(blank)
    filled = [line for line in lines if line.number not in empty]
    return DelimitedTable(
        header=header,
        lines=tuple(_kept(path, header, filled, notes)),
        blank=tuple(blank),
        how=how,
        read_as=read_as,
        notes=tuple(notes),
    )


def fold(name: str) -> str:
    """A column's name without what people do not see: case, and how many blanks of which kind."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _numbered(text: str, delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every line of cells, with the number of the line on which it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(f"line {before + 1}: {error}") from error
        yield before + 1, tuple(cells)
        before = reader.line_num


def _sniff(text: str, wanted: Sequence[str]) -> str:
    """The delimiter with which the header has the columns `wanted`, or else the one it has most of."""
    names = {fold(name) for name in wanted}
    having = {}
    for delimiter in _SPOKEN:
        try:
            lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
            cells = next((cells for cells in lines if cells), [])
        except csv.Error:
            continue
        having[delimiter] = (len(names & {fold(cell) for cell in cells}), len(cells))
    return max(having, key=lambda delimiter: having[delimiter], default=",")


def _how_read(path: Path, read: TableText, delimiter: str, how: str) -> str:
    """What to say of encoding and delimiter; nothing where they are commas and UTF-8."""
    if read.encoding == "utf-8" and delimiter == ",":
        return ""
    example = f"; it has the word {read.example!r}" if read.example else ""
    return Note(f"{path.name}: read as {how}{example}", f"a table is read as {how}")


def _note(path: Path, text: str) -> Note:
    """A note that holds nothing of the table but its name."""
    return Note(f"{path.name}: {text}", f"a table: {text}")


def _kept(
    path: Path, header: Sequence[str], lines: Sequence[TableLine], notes: list[str]
) -> Iterator[TableLine]:
    """The lines below the header that hold anything; what is left out or mended goes to `notes`."""
    again, longer = [], []
    unnamed: Counter[int] = Counter()
    for number, cells in ((line.number, line.cells) for line in lines[1:]):
        if tuple(cell.strip() for cell in cells) == header:
            again.append(number)
            continue
        if len(cells) > len(header) and not any(cell.strip() for cell in cells[len(header) :]):
            longer.append(number)
            cells = cells[: len(header)]
        unnamed.update(
            place
            for place, (name, cell) in enumerate(zip(header, cells, strict=False))
            if not name and cell.strip()
        )
        yield TableLine(number, cells)
    for found, what in (
        (again, "repeat the header and are left out"),
        (longer, "end with more delimiters than the header, which are not read"),
    ):
        if found:
            notes.append(_note(path, f"{_lines(found)} {what}"))
    for place, count in sorted(unnamed.items()):
        text = f"column {place + 1} has no name in the header and is not read; {count} lines fill it"
        notes.append(_note(path, text))


def _lines(numbers: Sequence[int]) -> str:
    """How many lines, and which the first ones are."""
    first = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{len(numbers)} lines ({first})"


def _refuse_titles(lines: Sequence[TableLine], wanted: Sequence[str]) -> None:
    """Refuse a table whose header comes below other lines."""
    names = {fold(name) for name in wanted}
    for line in lines[:_TITLES]:
        if names and names <= {fold(cell) for cell in line.cells}:
            if line is not lines[0]:
                raise UnreadableTableError(f"has its header on line {line.number}; delete the lines above it")
            return


def _refuse_quoted_whole(header: Sequence[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in _SPOKEN):
        raise UnreadableTableError(
            f"has one column, {header[0]!r}: each line is in quotes as a whole, as when a CSV file was "
            "opened as one column and saved again; export it anew"
        )

"""Tables as spreadsheets, archives and people save them: delimiter and encoding are detected from the file.

The delimiter is the one of commas, semicolons, tabs and vertical bars with which the header has the columns
that are asked for; Excel's first line `sep=;` names it. What is taken is said wherever it is not commas and
UTF-8. Nothing is padded or cut: a line with more or fewer cells than the header is reported with its number.

From the bytes of a table to its text: which encoding it is in, or why it is no text.

A byte-order mark decides, then strict UTF-8. What is left is taken for cp1252, in which Excel on Windows
saves "CSV". Other code pages look like cp1252 to any rule, so an example of what was read goes with it.
"""

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.data.output import Note

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like UTF-16's mark, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SAVE_AS = "open it in the spreadsheet and save it as `CSV UTF-8`"
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tabs and ends of lines
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(r"[^\s;,\t|\"]*[^\x00-\x7f][^\s;,\t|\"]*")


class UnreadableTableError(Exception):
    """A file cannot be read as a table; its text is the reason and what to do."""


class UnknownEncodingError(UnreadableTableError):
    """A table is not in the encoding that was detected; the user may know the right one."""


@dataclass(frozen=True)
class TableText:
    """The text of a table.

    Attributes:
        text: without a byte-order mark at its start.
        encoding: what it was taken for.
        example: a word that another encoding would have read otherwise; empty where the encoding is certain.
    """

    text: str
    encoding: str
    example: str = ""


def decode_table(content: bytes, encoding: str | None = None) -> TableText:
    """The text that `content` is, in `encoding` or in the one that it shows.

    Raises:
        UnreadableTableError: it is no text, or not of that encoding.
    """
    example = ""
    if encoding is not None:
        text, named = _decoded(content, encoding), encoding
    elif marked := next((name for mark, name in _MARKS if content.startswith(mark)), None):
        text, named = _decoded(content, marked), marked.removesuffix("-sig")
    else:
        try:
            text, named = content.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, named = _decoded(content, "cp1252"), "cp1252"
            word = _WORD.search(text)
            example = word[0] if word else ""
    text = text.removeprefix("\ufeff").removesuffix("\x1a")  # the latter ends a file of DOS
    _refuse_controls(text, named)
    return TableText(text, named, example)


def _refuse_controls(text: str, encoding: str) -> None:
    """Refuse what steers terminals and is no part of any word.

    Raises:
        UnknownEncodingError: with the line of the first such character.
    """
    found = CONTROLS.search(text)
    if found is None:
        return
    line = len(_LINE_END.findall(text, 0, found.start())) + 1
    raise UnknownEncodingError(
        f"has the control character {found[0]!r} on line {line}, which no table has: it is no text, "
        f"damaged, or of another encoding than {encoding}; take the character out, or export the table anew, "
        f"and {SAVE_AS}"
    )


def _decoded(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except LookupError as error:
        raise UnreadableTableError(f"cannot be read: there is no encoding {encoding!r}") from error
    except UnicodeError as error:
        name = encoding.removesuffix("-sig").upper()
        raise UnknownEncodingError(
            f"is not whole {name} ({error}). Export it again, and {SAVE_AS}"
        ) from error


NOTHING = ("", "nan", "none", "null", "na", "n/a")
"""How data frames and spreadsheets spell "not known" in a manifest, in any case."""

EMPTY_CELLS = ("#N/A", "#NV", "NULL", "NaN", "None", "NA", "N/A", "-", "--", "\u2013", "\u2014")
"""How exports spell it, in any case: `#NV` is German, the last two are dashes of a word processor."""

AS_TEXT = "format the column as text in the spreadsheet before it is filled, and export again"
_ROUNDED = re.compile(r"\d([.,]\d+)?[eE]\+\d+")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_SPOKEN = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_SEPARATOR_LINE = re.compile(r"\"?sep=(.)\"?[ \t]*(\r\n|\r|\n|$)", re.IGNORECASE)


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
    chosen = delimiter or (named[1] if named else None) or _sniff(body, wanted)
    try:
        lines = [TableLine(number + skipped, cells) for number, cells in _numbered(body, chosen) if cells]
    except csv.Error as error:
        raise UnreadableTableError(
            f"is not a CSV file that can be read with {_SPOKEN.get(chosen, repr(chosen))}: {error}; a quote "
            "that opens has to close, and one within a cell is doubled"
        ) from error
    header = tuple(name.strip() for name in lines[0].cells) if lines else ()
    how = f"{read.encoding.replace('utf', 'UTF')} with {_SPOKEN.get(chosen, repr(chosen))}"
    read_as = _how_read(path, read, chosen, how)
    notes = [read_as] if read_as else []
    blank = [line.number for line in lines[1:] if not any(cell.strip() for cell in line.cells)]
    if blank:
        first = ", ".join(map(str, blank[:5])) + (", ..." if len(blank) > 5 else "")
        text = f"{len(blank)} lines ({first}) hold only delimiters and are left out"
        notes.append(Note(f"{path.name}: {text}", f"a table: {text}"))
    empty = set(blank)
    return DelimitedTable(
        header=header,
        lines=tuple(line for line in lines[1:] if line.number not in empty),
        blank=tuple(blank),
        how=how,
        read_as=read_as,
        notes=tuple(notes),
    )


def fold(name: str) -> str:
    """A column's name without what people do not see: case, and how many blanks of which kind."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def rounded(cell: str) -> bool:
    """Whether a cell is a number that a spreadsheet shortened, `1.23E+05`: several ids become one."""
    return _ROUNDED.fullmatch(cell) is not None


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

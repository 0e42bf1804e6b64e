"""Tables of texts, and how a terminal shows them; how a page shows them is in `card/table.html`.

What stands in a bundle, a certificate or a reason is somebody else's. What commands print goes through
`registry.bundle.plain_text`, which spells out what would steer a terminal, and a page through it and through
Jinja's escaping.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from registry.bundle.plain_text import on_one_line, shown

printable = on_one_line  # the name under which others know it from here

LONGEST_CELL: Final = 300
"""Characters of a cell before its middle is left out."""


@dataclass(frozen=True)
class Cell:
    """One cell: what it says and, smaller, how sure that is."""

    text: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.note}" if self.note else self.text


@dataclass(frozen=True)
class Row:
    """One row: its head and its cells."""

    head: str
    cells: tuple[Cell, ...]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table, with the caption that names it.

    Attributes:
        key: unique within the section of one bundle; part of ids in the page.
        caption: what it shows.
        header: the head of each column, that of the rows first.
        rows: each with one cell fewer than `header`.
        note: what to know when reading it.
    """

    key: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""


def text_of(table: Table) -> str:
    """Rows below their header, each column as wide as its widest entry; caption and notes are left out."""
    return columns(table.header, [[row.head, *map(str, row.cells)] for row in table.rows])


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts below their header, each column as wide as its widest entry."""
    texts = [_cells(row) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    line = "  ".join(f"{{:<{width}}}" for width in widths)
    return "\n".join(line.format(*row).rstrip() for row in texts)


def _cells(row: Sequence[str]) -> Sequence[str]:
    whole = "".join(row)
    if whole.isascii() and whole.isprintable() and len(whole) <= LONGEST_CELL:
        return row  # as most are
    return [shown(text, LONGEST_CELL) for text in row]


def lines_of(texts: Iterable[str]) -> str:
    """Texts below each other, each on one line whatever it holds."""
    return "\n".join(map(shown, texts))

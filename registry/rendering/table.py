"""Tables of texts, and how a terminal shows them; how a page shows them is in `card/table.html`.

What stands in a bundle, a certificate or a reason is somebody else's: it may hold what breaks a line, steers
a terminal or turns letters round. Each output shows such characters in one place instead of obeying them:
what commands print goes through `printable`, and a page through it and through Jinja's escaping.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# What ends a line or steers a terminal, and halves of characters, which nothing can write.
_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
# What turns the order of the letters that follow it.
_TURNING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


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
    shown = [[printable(text) for text in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    line = "  ".join(f"{{:<{width}}}" for width in widths)
    return "\n".join(line.format(*row).rstrip() for row in shown)


def lines_of(texts: Iterable[str]) -> str:
    """Texts below each other, each on one line whatever it holds."""
    return "\n".join(map(printable, texts))


def printable(text: str) -> str:
    r"""The text with what is not seen, or changes how others are seen, spelt out: a newline as `\n`."""
    return "".join(one if _is_seen(one) else one.encode("unicode_escape").decode() for one in text)


def _is_seen(one: str) -> bool:
    return unicodedata.category(one) not in _UNSEEN and unicodedata.bidirectional(one) not in _TURNING

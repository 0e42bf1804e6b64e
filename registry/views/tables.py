"""Sections, tables and facts, and how a terminal and a page draw them.

Names, reasons and certificates are written by others. What a terminal prints goes through
`registry.bundle.text`, which spells out what would steer it; a page goes through that and Jinja's escaping.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from registry.bundle.text import shown

LONGEST_CELL: Final = 300
"""Characters of a cell before its middle is left out."""

UNLIMITED: Final = 100_000
"""Columns of what is no terminal: lines that programs read are never folded."""


@dataclass(frozen=True)
class Cell:
    """A cell: its text, a smaller note such as the interval, and whether it is a loss or a refusal."""

    text: str
    note: str = ""
    bad: bool = False

    def __str__(self) -> str:
        if not self.note:
            return self.text
        return f"{self.text} {self.note}" if self.note.startswith("(") else f"{self.text} ({self.note})"


@dataclass(frozen=True)
class Row:
    """A row: its head, its cells, a smaller note on the head, and whether it is of all others together."""

    head: str
    cells: tuple[Cell, ...]
    note: str = ""
    total: bool = False

    @classmethod
    def of(cls, head: str, *cells: Cell | str, note: str = "", total: bool = False) -> "Row":
        """A row of cells and of texts, which become cells."""
        return cls(head, tuple(Cell(one) if isinstance(one, str) else one for one in cells), note, total)


@dataclass(frozen=True)
class Table:
    """A table; without rows it is false, and is drawn nowhere.

    Attributes:
        caption: what it shows; a page prints it, a terminal does not.
        header: the head of each column, that of the rows first.
        rows: each with one cell fewer than `header`.
        note: what to know when reading it; a page prints it.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    @classmethod
    def of(cls, caption: str, header: Iterable[str], rows: Iterable[Row], note: str = "") -> "Table":
        """A table of these rows."""
        return cls(caption, tuple(header), tuple(rows), note)

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True)
class Facts:
    """Pairs of a name and a text."""

    pairs: tuple[tuple[str, str], ...]


Part = Table | Facts | tuple[str, ...] | str
"""A text alone is a paragraph; several are a list on a page and lines on a terminal."""


@dataclass(frozen=True)
class Section:
    """A title and what stands below it."""

    title: str
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, title: str, *parts: Part | None, otherwise: str = "") -> "Section":
        """A section without empty parts, or with a text in their place where all are empty."""
        return cls(title, tuple(filter(None, parts)) or tuple(filter(None, [otherwise])))


def draw(*sections: Section) -> str:
    """The sections as a terminal prints them: tables fold to its width, names and digests stay whole.

    Where the output is no terminal nothing is folded.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    with console.capture() as captured:
        for place, section in enumerate(sections):
            if place:
                console.print()
            if section.title:
                console.print(Text(shown(section.title), style="bold"), soft_wrap=True)
            for part in section.parts:
                _draw_part(console, part)
    return "\n".join(line.rstrip() for line in captured.get().removesuffix("\n").split("\n"))


def _draw_part(console: Console, part: Part) -> None:
    match part:
        case Table():
            _draw_table(console, part)
        case Facts():
            width = max((len(name) for name, _ in part.pairs), default=0)
            for name, text in part.pairs:
                console.print(Text(f"  {shown(name):<{width}}  {shown(text)}"), soft_wrap=True)
        case str():
            console.print(Text(shown(part)))
        case _:
            for text in part:
                console.print(Text(shown(text)))


def _draw_table(console: Console, table: Table) -> None:
    """Fold cells to the terminal's width between words; where words need more, the lines are longer."""
    rows = [(Cell(row.head, row.note), *row.cells) for row in table.rows]
    texts = [[shown(head, LONGEST_CELL) for head in table.header]]
    texts += [[shown(str(one), LONGEST_CELL) for one in row] for row in rows]
    longest = [
        max(len(word) for text in column for word in ["", *text.split()])
        for column in zip(*texts, strict=True)
    ]
    drawn = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for head, width in zip(texts[0], longest, strict=True):
        drawn.add_column(Text(head), overflow="fold", min_width=width)
    for row, cells in zip(rows, texts[1:], strict=True):
        drawn.add_row(*(Text(text, "red" if one.bad else "") for one, text in zip(row, cells, strict=True)))
    console.print(drawn, width=max(console.width, sum(longest) + 2 * len(longest)), crop=False)


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows below their header, one on each line however many there are.

    rich takes half a second for a thousand rows and would fold digests; lists of versions stay below both.
    """
    texts = [[shown(text, LONGEST_CELL) for text in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in texts)
    return "\n".join(line.rstrip() for line in lines)


def lines_of(texts: Iterable[str]) -> str:
    """Texts below each other, each on one line whatever it contains."""
    return "\n".join(map(shown, texts))


def shown_text(value: Any) -> Any:
    """A text with invisible characters spelt out, for templates; what is HTML already stays."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def environment(*loaders: BaseLoader, finalize: Callable[[Any], Any] | None = shown_text) -> Environment:
    """Templates that draw what others wrote, with those of this package under `views/`; values are escaped.

    Args:
        loaders: of the templates.
        finalize: what becomes of each value before it is escaped.
    """
    views = PrefixLoader({"views": PackageLoader("registry.views", ".")})
    return Environment(
        loader=ChoiceLoader([*loaders, views]),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

"""Tables on a terminal, however narrow: headers and names are folded, and none is cut to an ellipsis.

Titles, headers and cells are texts, not markup of rich: names of people's own may have brackets.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from registry.bundle.text import printable

UNBOUNDED = 100_000  # columns


def print_table(table: Table, console: Console | None = None, *, in_blocks: bool = False) -> None:
    """Print a table whose cells are texts, folded where the terminal is too narrow for it.

    What stands in it is shown as it is: `[b]` is no markup, and control characters are spelt out.

    Args:
        table: the table; it stays as it is.
        console: where; standard output unless given.
        in_blocks: whether columns that do not fit beside each other go below each other, in tables of their
            own that begin with the same first column; else all stay in one, where long words are folded too.
    """
    console = console or Console()
    table = as_texts(table)
    for one in blocks(table, console) if in_blocks else [table]:
        console.print(fitted(one, console))


def as_texts(table: Table) -> Table:
    """The table with all that it says as texts: nothing of it is markup, or steers the terminal."""
    changed = copy(table)
    changed.title = as_text(table.title, "table.title")
    changed.caption = as_text(table.caption, "table.caption")
    changed.columns = [
        replace(
            column,
            header=as_text(column.header),
            footer=as_text(column.footer),
            _cells=[as_text(cell) for cell in column.cells],
        )
        for column in table.columns
    ]
    return changed


def as_text(told: Any, style: str = "") -> Any:
    """A text as rich prints it as it is; what rich draws otherwise, and nothing, stay what they are."""
    if isinstance(told, Text):
        steers = printable(told.plain) != told.plain
        return Text(printable(told.plain), style=told.style, justify=told.justify) if steers else told
    return Text(printable(told), style=style) if isinstance(told, str) else told


def blocks(table: Table, console: Console) -> list[Table]:
    """The table, or several with some of its columns each, such that no word of them needs to be folded."""
    words = [longest_word(column) for column in table.columns]
    room = console.width - beside(table, console, 1) - words[0]
    per_column = beside(table, console, 2) - beside(table, console, 1)
    groups: list[list[int]] = [[]]
    taken = 0
    for place, word in list(enumerate(words))[1:]:
        if groups[-1] and taken + word + per_column > room:
            groups.append([])
            taken = 0
        groups[-1].append(place)
        taken += word + per_column
    if len(groups) == 1:
        return [table]
    parts = [with_columns(table, [table.columns[place] for place in (0, *group)]) for group in groups]
    for number, part in enumerate(parts, start=1):
        title = plain(table.title) if table.title else ""
        part.title = as_text(f"{title} ({number} of {len(parts)})".lstrip(), "table.title")
        part.caption = table.caption if number == len(parts) else None
    return parts


def fitted(table: Table, console: Console) -> Table:
    """The table with columns as wide as there is room for, those with the most text the widest.

    Headers stay on one line where all of them can, and words stay whole where they can.
    """
    wanted = [max(map(cell_len, lines_of(column)), default=0) for column in table.columns]
    room = console.width - beside(table, console, len(table.columns))
    if sum(wanted) <= room:
        return with_columns(table, [replace(column, overflow="fold") for column in table.columns])
    words = [longest_word(column) for column in table.columns]
    with_headers = [
        max(word, cell_len(plain(column.header))) for word, column in zip(words, table.columns, strict=True)
    ]
    widths = with_headers if sum(with_headers) <= room else words
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    while sum(widths) < room:
        lines = [wish / max(width, 1) for wish, width in zip(wanted, widths, strict=True)]
        widths[lines.index(max(lines))] += 1
    return with_columns(
        table,
        [
            replace(column, overflow="fold", no_wrap=False, width=width)
            for column, width in zip(table.columns, widths, strict=True)
        ],
    )


def with_columns(table: Table, columns: Sequence[Column]) -> Table:
    """The table with these columns in place of its own."""
    changed = copy(table)
    changed.columns = [replace(column, _index=place) for place, column in enumerate(columns)]
    return changed


def beside(table: Table, console: Console, count: int) -> int:
    """How many columns of a terminal its first `count` columns take beside their texts."""
    part = with_columns(table, table.columns[:count])
    texts = sum(max(map(cell_len, lines_of(column)), default=0) for column in part.columns)
    return Measurement.get(console, console.options.update(width=UNBOUNDED), part).maximum - texts


def lines_of(column: Column) -> list[str]:
    """All lines of a column's header and cells."""
    return [line for cell in (column.header, *column.cells) for line in plain(cell).splitlines()]


def longest_word(column: Column) -> int:
    """The cells that its longest word takes, 1 at least."""
    return max((cell_len(word) for line in lines_of(column) for word in line.split()), default=1)


def plain(cell: RenderableType) -> str:
    """A cell's text as it is shown."""
    return cell.plain if isinstance(cell, Text) else str(cell)

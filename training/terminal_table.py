"""Tables on a terminal, however narrow: headers and names are folded, and none is cut to an ellipsis.

Titles, headers and cells are texts, not markup of rich: names of people's own may have brackets.
"""

from copy import copy
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from registry.bundle.text import printable

UNBOUNDED = 100_000  # columns


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table whose cells are texts; a line for each cell where not all of its words have room.

    What stands in it is shown as it is: `[b]` is no markup, and control characters are spelt out.

    Args:
        table: the table; it stays as it is.
        console: where; standard output unless given.
    """
    console = console or Console()
    shown, unbounded = as_texts(table), console.options.update(width=UNBOUNDED)
    fits = Measurement.get(console, unbounded, shown).minimum <= console.width
    console.print(shown if fits else as_records(shown))


def as_texts(table: Table) -> Table:
    """The table with all that it says as texts: nothing of it is markup, or steers the terminal."""
    changed = copy(table)
    changed.title = as_text(table.title, "table.title")
    changed.caption = as_text(table.caption, "table.caption")
    changed.columns = [
        replace(
            column,
            header=as_text(column.header),
            overflow="fold",
            no_wrap=False,
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


def as_records(table: Table) -> Table:
    """The table with a line for each of its cells, beginning with the cell's header; rows are set apart."""
    records = Table(
        title=table.title,
        title_justify=table.title_justify,
        caption=table.caption,
        caption_justify=table.caption_justify,
        show_header=False,
    )
    for _ in range(2):
        records.add_column(overflow="fold")
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for column, cell in zip(table.columns, cells, strict=True):
            records.add_row(column.header, cell)
        records.add_section()
    return records

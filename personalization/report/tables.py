"""Tables as the template shows them."""

from dataclasses import dataclass

from personalization.report.measures import Estimate
from personalization.report.numerals import Unit, interval, number


@dataclass(frozen=True)
class Cell:
    """One cell: what it says and, smaller, what qualifies it; `faint` where it rests on little."""

    text: str
    note: str = ""
    faint: bool = False


@dataclass(frozen=True)
class Row:
    """One row: its header and its cells."""

    header: str
    cells: tuple[Cell, ...]
    is_total: bool = False


@dataclass(frozen=True)
class Table:
    """A table; `columns` starts with the title of the row headers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def cell(estimate: Estimate, unit: Unit = "ratio") -> Cell:
    """A figure with its interval as the note."""
    return Cell(number(estimate.value, unit), interval(estimate, unit))


def texts(*values: str) -> tuple[Cell, ...]:
    """Plain cells."""
    return tuple(Cell(value) for value in values)

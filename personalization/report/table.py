"""Tables of the report: cells, rows and class names as the template shows them."""

from dataclasses import dataclass

from personalization.report.measures import Estimate
from personalization.report.numerals import Unit, interval, number
from registry.bundle.labels import Label


@dataclass(frozen=True)
class Cell:
    """One cell: its text and, smaller, a note; `alert` where a stage made it worse."""

    text: str
    note: str = ""
    alert: bool = False


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


def label_name(label: Label, *, malignancy: bool = False) -> str:
    """`Melanoma (MEL)`, with `malignancy` `Melanoma (MEL, malignant)`; without repetition."""
    beside = [label.code]
    if malignancy and label.malignancy != "unknown":
        beside.append(label.malignancy)
    news = [word for word in dict.fromkeys(beside) if word.casefold() != label.name.casefold()]
    return f"{label.name} ({', '.join(news)})" if news else label.name

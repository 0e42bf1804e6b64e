"""Differences between subgroups at the same mix of diseases, with p values."""

from collections.abc import Mapping, Sequence
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import BY_KEY, Estimate
from personalization.report.numerals import ABSENT, Unit
from personalization.report.table import Cell, Row, Table, cell

_SIGNIFICANT = 0.001
"""Below it a probability is only said to be below it: more digits than a bootstrap has draws are no news."""


def differences_table(data: ReportData) -> Table | None:
    """One row per pair of subgroups and figure; None where the run compared no subgroups."""
    differences: Sequence[Mapping[str, Any]] = data.last_test.get("differences") or ()
    if not differences:
        return None
    rows = tuple(_row(difference) for difference in differences)
    columns = ("subgroups", "figure", "difference", "p", "p, adjusted")
    return Table("Differences between subgroups at one mix of diseases", columns, rows)


def figure_title(key: str) -> str:
    """`Balanced accuracy` of `balanced_accuracy` and of `balanced_accuracy_standardised`."""
    plain = key.removesuffix("_standardised")
    return BY_KEY[plain].title if plain in BY_KEY else plain.replace("_", " ").capitalize()


def probability(value: float | None) -> str:
    """A p value: three decimals, `< 0.001` below that."""
    if value is None:
        return ABSENT
    return f"<\u202f{_SIGNIFICANT}" if value < _SIGNIFICANT else f"{value:.3f}"


def _row(difference: Mapping[str, Any]) -> Row:
    one, other = difference["between"]
    key = difference["figure"]
    unit: Unit = "points" if key not in BY_KEY or BY_KEY[key].percent else "ratio"
    found = Estimate(difference["value"], *(difference.get("interval") or (None, None)))
    cells = (
        Cell(figure_title(key)),
        cell(found, unit),
        Cell(probability(difference.get("p"))),
        Cell(probability(difference.get("p_adjusted"))),
    )
    return Row(f"{one} − {other}", cells)

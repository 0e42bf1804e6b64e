"""Subgroups intersected with another column, such as dark skin at one site of the body."""

from collections.abc import Mapping
from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import Estimate
from personalization.report.numerals import ABSENT, whole
from personalization.report.table import Cell, Row, Table, cell, texts
from personalization.report.tables.subgroups import figure_title

FIGURES = ("accuracy", "balanced_accuracy", "malignant_sensitivity")

TOO_FEW = "too few to tell"
"""Stands for a group of which clients told fewer than 30 pictures (`registry.bundle.metrics.summary`),
or none: each client keeps to itself what it has too few of."""


def intersection_tables(data: ReportData) -> tuple[Table, ...]:
    """One table per column; one row per value of it and subgroup."""
    columns: Mapping[str, Any] = data.last_test.get("intersections") or {}
    return tuple(_table(column, by_value) for column, by_value in columns.items() if by_value)


def _table(column: str, by_value: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = tuple(
        Row(f"{value}, {subgroup}", _cells(group))
        for value, by_subgroup in by_value.items()
        for subgroup, group in by_subgroup.items()
    )
    titles = tuple(figure_title(key).lower() for key in FIGURES)
    title = f"Subgroups by {column.replace('_', ' ')}, with 95 % intervals"
    return Table(title, (f"{column.replace('_', ' ')}, subgroup", "pictures", *titles), rows)


def _cells(group: Mapping[str, Any] | None) -> tuple[Cell, ...]:
    if group is None:
        return (Cell(TOO_FEW), *texts(*[ABSENT] * len(FIGURES)))
    n = int(group["n"])
    intervals = group.get("intervals") or {}
    figures = [
        cell(Estimate(group.get(key), *(intervals.get(key) or (None, None))), "percent") for key in FIGURES
    ]
    return (Cell(whole(n)), *figures)

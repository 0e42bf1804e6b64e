"""Figures as the cells of tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from registry.bundle.metrics.patient import COUNTS, sides, told
from registry.card.figures import FEW, UNKNOWN, count_of, interval_of, number_of
from registry.rendering.table import Cell, Row, Table

MEASURES: Mapping[str, str] = {
    "malignant_sensitivity": "Sensitivity, malignant",
    "malignant_specificity": "Specificity, malignant",
    "malignancy_auroc": "AUROC, malignancy",
    "balanced_accuracy": "Balanced accuracy",
    "sensitivity_at_threshold": "Sensitivity at the working point",
    "specificity_at_threshold": "Specificity at the working point",
    "accuracy": "Accuracy",
    "recall": "Recall",
    "precision": "Precision",
    "f1": "F1",
    "macro_precision": "Macro precision",
    "macro_f1": "Macro F1",
    "weighted_precision": "Weighted precision",
    "weighted_recall": "Weighted recall",
    "weighted_f1": "Weighted F1",
    "specificity": "Specificity",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "ece": "ECE",
    "mce": "MCE",
    "aurc": "AURC",
    "coverage": "Coverage of sets",
    "set_size": "Mean set size",
    "reported": "Share reported",
    "reported_risk": "Wrong among reported",
    "spread": "Spread",
    "spread_standardised": "Spread, one mix of diseases",
    "gap": "Gap",
    "worst": "Worst",
    "variance": "Variance",
    "accuracy_standardised": "Accuracy, one mix of diseases",
    "balanced_accuracy_standardised": "Balanced accuracy, one mix of diseases",
}
"""What figures are called, in the order of columns; others follow under their own names."""

NO_FIGURES = (*COUNTS, "epoch")
"""Numbers of a row that say nothing of how well the model answers."""


def title(name: str) -> str:
    """What a figure is called."""
    return MEASURES.get(name) or name.replace("_", " ")


def figure(value: object) -> str:
    """A number to three places (five where it is small), a count as it is, `unknown` where there is none."""
    number = number_of(value)
    if number is None:
        return UNKNOWN
    if isinstance(number, int):
        return str(number)
    shown = f"{number:.3f}" if abs(number) >= 0.001 or number == 0 else f"{number:.5f}"
    return shown.replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """An interval in brackets, `(0.720 to 0.870)`; empty where there is none."""
    return "" if ends is None else f"({figure(float(ends[0]))} to {figure(float(ends[1]))})"


def cell(row: Mapping[str, Any], name: str) -> Cell:
    """One figure of a row with its interval, or why there is none."""
    if number_of(row.get(name)) is None:
        return Cell(told(row, name).words)
    return Cell(figure(row[name]), interval(interval_of(row, name)))


def tested_on(row: Mapping[str, Any]) -> Cell:
    """On how many pictures a row rests, how many of them malignant, marked where they are few."""
    n = count_of(row.get("n"))
    if n is None:
        return Cell(UNKNOWN)
    return Cell(str(n), ", ".join(filter(None, (sides(row), "few" if n < FEW else ""))))


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures that any of the rows has as a number: those known here first, in their order."""
    found = {
        name
        for row in rows
        for name, value in row.items()
        if name not in NO_FIGURES and number_of(value) is not None
    }
    return [*(name for name in MEASURES if name in found), *sorted(found - set(MEASURES))]


def figure_table(
    key: str, caption: str, rows: Mapping[str, Mapping[str, Any]], *, head: str, note: str = ""
) -> Table:
    """A table with one row for each name and one column for each figure that any of them has."""
    columns = columns_of(list(rows.values()))
    return Table(
        key,
        caption,
        (head, "Test pictures", *map(title, columns)),
        tuple(
            Row(name, (tested_on(row), *(cell(row, column) for column in columns)))
            for name, row in rows.items()
        ),
        note,
    )

"""From when on a model says that a picture is unlike those it was trained on."""

from collections.abc import Mapping, Sequence
from typing import Any

from personalization.report.data import ReportData
from personalization.report.numerals import listed, number, whole
from personalization.report.tables import Cell, Row, Table

_COLUMNS = (
    "model",
    "trained on pictures",
    "of classes",
    "calibration pictures",
    "of known pictures flagged, at most",
    "flagged above distance",
    "flagged on test",
)


def novelty_table(data: ReportData) -> Table | None:
    """One row per model that learned it; None where none did."""
    models = {
        name: told["novelty"]
        for of in data.facts
        for name, told in (of.facts.get("models") or {}).items()
        if told.get("novelty")
    }
    codes = [label.code for label in data.labels]
    rows = tuple(_row(name, told, codes) for name, told in models.items())
    return Table("Pictures unlike those trained on", _COLUMNS, rows) if rows else None


def _row(name: str, told: Mapping[str, Any], codes: Sequence[str]) -> Row:
    missing = [code for code in codes if code not in told["classes"]]
    threshold = told["threshold"]
    cells = (
        Cell(whole(told["trained_on"])),
        Cell(f"{len(told['classes'])} of {len(codes)}", f"without {listed(missing)}" if missing else ""),
        Cell(whole(told["n"])),
        Cell(number(told["rate"], "percent")),
        Cell("flags none", "too few pictures") if threshold is None else Cell(f"{threshold:.1f}"),
        Cell(number(told.get("flagged"), "percent")),
    )
    return Row(name, cells)

"""Out-of-distribution detection: the distance above which each model flags a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

from personalization.report.data import ReportData
from personalization.report.numerals import listed, number, whole
from personalization.report.table import Cell, Row, Table

_COLUMNS = (
    "model",
    "trained on pictures",
    "of classes",
    "calibration pictures",
    "of known pictures flagged, at most",
    "flagged above distance",
    "flagged on test",
)


def ood_table(data: ReportData) -> Table | None:
    """One row per model with a detector; None where none has one."""
    models = {
        name: facts["novelty"]
        for of in data.facts
        for name, facts in (of.facts.get("models") or {}).items()
        if facts.get("novelty")
    }
    codes = [label.code for label in data.labels]
    rows = tuple(_row(name, facts, codes) for name, facts in models.items())
    return Table("Pictures unlike those trained on", _COLUMNS, rows) if rows else None


def _row(name: str, facts: Mapping[str, Any], codes: Sequence[str]) -> Row:
    missing = [code for code in codes if code not in facts["classes"]]
    threshold = facts["threshold"]
    cells = (
        Cell(whole(facts["trained_on"])),
        Cell(f"{len(facts['classes'])} of {len(codes)}", f"without {listed(missing)}" if missing else ""),
        Cell(whole(facts["n"])),
        Cell(number(facts["rate"], "percent")),
        Cell("flags none", "too few pictures") if threshold is None else Cell(f"{threshold:.1f}"),
        Cell(number(facts.get("flagged"), "percent")),
    )
    return Row(name, cells)

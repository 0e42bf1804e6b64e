"""The calibration of every model: temperature, prediction sets and abstention."""

from collections.abc import Sequence

from personalization.calibration.conformal import examples_needed
from personalization.report.data import CalibratedModel
from personalization.report.numerals import number, threshold, whole
from personalization.report.table import Cell, Row, Table

_COLUMNS = (
    "model",
    "calibration pictures",
    "temperature",
    "in the set from",
    "coverage promised",
    "answered from confidence",
)


def calibration_table(models: Sequence[CalibratedModel]) -> Table:
    """One row per calibrated model."""
    return Table("What calibration fixed", _COLUMNS, tuple(_row(model) for model in models))


def _row(model: CalibratedModel) -> Row:
    conformal, abstention = model.conformal, model.abstention
    from_probability = threshold(model.bins.lower(conformal.threshold_bin))
    from_confidence = threshold(model.bins.lower(model.reports_from))
    target = f"target risk {number(abstention.target_risk, 'percent')}"
    cells = (
        Cell(whole(conformal.n)),
        _temperature(model),
        Cell(from_probability if conformal.guaranteed else "every class"),
        _promise(model),
        Cell("always refers") if model.refers_always else Cell(from_confidence, target),
    )
    return Row(model.subgroup, cells)


def _temperature(model: CalibratedModel) -> Cell:
    found = model.temperature
    note = "global: too few pictures" if found.fitted is None else f"own fit {found.fitted:.2f}"
    return Cell(f"{found.value:.2f}", note)


def _promise(model: CalibratedModel) -> Cell:
    conformal = model.conformal
    asked = number(conformal.coverage, "percent")
    if conformal.guaranteed:
        return Cell(asked, f"expected {number(conformal.expected_coverage, 'percent')}")
    return Cell("none", f"{asked} needs {examples_needed(conformal.coverage)} pictures")

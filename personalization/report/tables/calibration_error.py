"""Calibration error by subgroup, before and after calibration: ECE and MCE."""

from collections.abc import Mapping

from personalization.report.data import ReportData
from personalization.report.measures import ALL, estimate, present, total
from personalization.report.numerals import whole
from personalization.report.table import Cell, Row, Table, cell
from registry.bundle.counts.counting import Block


def calibration_error_table(data: ReportData) -> Table | None:
    """Both errors before and after the last calibration; None where there was none, or nothing to compare."""
    stages = list(data.counts)
    calibrated = [of.stage for of in data.facts if of.kind == "calibrate" and of.stage in stages[1:]]
    if not calibrated:
        return None
    after = calibrated[-1]
    before = stages[stages.index(after) - 1]
    earlier, later = (_with_all(data.counts[stage]) for stage in (before, after))
    rows = []
    for name, block in later.items():
        n = int(block.point.n)
        cells = [
            cell(estimate(error, of[name])) if name in of else Cell("–")
            for error in ("ece", "mce")
            for of in (earlier, later)
        ]
        rows.append(Row(name, (Cell(whole(n)), *cells), is_total=name == ALL))
    return Table(
        f"Calibration error after {before} and after {after}, with 95 % intervals",
        ("subgroup", "pictures", "ECE before", "ECE after", "MCE before", "MCE after"),
        tuple(rows),
    )


def _with_all(blocks: Mapping[str, Block]) -> dict[str, Block]:
    return {**present(blocks), ALL: total(blocks)}

"""What probes found of an encoder: a linear classifier of its features, and the nearest neighbours."""

from collections.abc import Mapping
from typing import Any

from personalization.report.data import ReportData, StageFacts
from personalization.report.measures import ALL, Estimate
from personalization.report.numerals import whole
from personalization.report.table import Cell, Row, Table, cell
from training.jobs.stages.probe import FIGURES, NOTHING

_COLUMNS = {
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}


def probe_tables(data: ReportData) -> tuple[Table, ...]:
    """One table for every stage that probed an encoder."""
    return tuple(probe_table(of) for of in data.facts if of.kind == "probe")


def probe_table(of: StageFacts) -> Table:
    """The figures that were asked for, over all pictures and in each subgroup."""
    rows = [
        Row(f"{kind}, {place}", _cells(figures), is_total=place == ALL)
        for kind in FIGURES
        if kind in of.facts
        for found in (of.facts[kind] or NOTHING,)
        for place, figures in {ALL: found, **found["by_subgroup"]}.items()
    ]
    columns = ("probe", "test pictures", *_COLUMNS.values())
    return Table(f"Of the encoder, by stage “{of.stage}”, with 95 % intervals", columns, tuple(rows))


def _cells(figures: Mapping[str, Any]) -> tuple[Cell, ...]:
    n, intervals = int(figures["n"]), figures["intervals"]
    return (
        Cell(whole(n)),
        *(cell(Estimate(figures.get(key), *(intervals.get(key) or (None, None)))) for key in _COLUMNS),
    )

"""All measures of every subgroup, and the recall of every class in every subgroup."""

from collections.abc import Mapping, Sequence

from personalization.report.measures import ALL, Malignant, Measure, estimate, present, total
from personalization.report.numerals import ABSENT, number
from personalization.report.table import Cell, Row, Table, label_name
from personalization.report.tables.patient import figure_cell, pictures_of
from registry.bundle.counts.counting import Block
from registry.bundle.labels import Label


def figures_table(
    stage: str, blocks: Mapping[str, Block], measures: Sequence[Measure], malignant: Malignant
) -> Table:
    """Some measures of all subgroups after one stage, all pictures last, without those defined nowhere."""
    shown = {**present(blocks), ALL: total(blocks)}
    estimates = {
        name: {measure: estimate(measure.key, block, malignant) for measure in measures}
        for name, block in shown.items()
    }
    columns = [
        measure for measure in measures if any(row[measure].value is not None for row in estimates.values())
    ]
    rows = tuple(
        Row(
            name,
            (
                pictures_of(block, malignant),
                *(figure_cell(measure, estimates[name][measure], block, malignant) for measure in columns),
            ),
            is_total=name == ALL,
        )
        for name, block in shown.items()
    )
    return Table(
        f"Figures after {stage}, with 95 % intervals",
        ("subgroup", "pictures", *(measure.title for measure in columns)),
        rows,
    )


def recall_table(stage: str, blocks: Mapping[str, Block], labels: Sequence[Label]) -> Table:
    """The recall of every class in every subgroup."""
    shown = {**present(blocks), ALL: total(blocks)}
    rows = []
    for k, label in enumerate(labels):
        cells = []
        for block in shown.values():
            right, n = int(block.point.confusion[k, k]), int(block.point.confusion[k].sum())
            share = number(right / n, "percent") if n else ABSENT
            cells.append(Cell(share, f"{right} of {n}" if n else ""))
        rows.append(Row(label_name(label, malignancy=True), tuple(cells)))
    return Table(
        f"Recall of every disease after {stage}: right answers of its pictures",
        ("disease", *shown),
        tuple(rows),
    )

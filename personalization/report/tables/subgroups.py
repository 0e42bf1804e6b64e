"""All measures of every subgroup, and the recall of every class in every subgroup."""

from collections.abc import Mapping, Sequence

from personalization.report.measures import ALL, MEASURES, estimate, present, total
from personalization.report.numerals import ABSENT, number, whole
from personalization.report.table import Cell, Row, Table, cell, label_name
from registry.bundle.counts.count import Block
from registry.bundle.manifest.labels import Label

FEW = 30
"""A figure that rests on fewer pictures than this is shown faint."""


def figures_table(stage: str, blocks: Mapping[str, Block]) -> Table:
    """All measures of all subgroups after one stage, all pictures last."""
    shown = {**present(blocks), ALL: total(blocks)}
    estimates = {name: [estimate(m.key, block) for m in MEASURES] for name, block in shown.items()}
    defined = [any(row[at].value is not None for row in estimates.values()) for at in range(len(MEASURES))]
    columns = [m for m, any_defined in zip(MEASURES, defined, strict=True) if any_defined]
    rows = []
    for name, block in shown.items():
        n = int(block.point.n)
        cells = [
            cell(found, "percent" if measure.percent else "ratio")
            for measure, found, any_defined in zip(MEASURES, estimates[name], defined, strict=True)
            if any_defined
        ]
        rows.append(Row(name, (Cell(whole(n), faint=n < FEW), *cells), is_total=name == ALL))
    return Table(
        f"Figures after {stage}, with 95 % intervals",
        ("subgroup", "pictures", *(measure.title for measure in columns)),
        tuple(rows),
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
            cells.append(Cell(share, f"{right} of {n}" if n else "", faint=n < FEW))
        rows.append(Row(label_name(label, malignancy=True), tuple(cells)))
    return Table(
        f"Recall of every disease after {stage}: right answers of its pictures",
        ("disease", *shown),
        tuple(rows),
    )

"""Tables of test metrics: by subgroup, class, intersection and client never seen in training.

Differences between subgroups are at the same mix of diseases, with p values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from personalization.report.data import ReportData, StageFacts
from personalization.report.measures import (
    ABSENT,
    ALL,
    BY_KEY,
    Cell,
    Estimate,
    Malignant,
    Measure,
    Row,
    Table,
    Unit,
    auroc_is_of_malignancy,
    cell,
    estimate,
    label_name,
    number,
    texts,
    total,
    whole,
    with_all,
)
from personalization.report.patients import figure_cell, pictures_of
from registry.bundle.counts.counting import Block
from registry.bundle.labels import Label
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.summary import BY_CLASS


def figures_table(
    stage: str, blocks: Mapping[str, Block], measures: Sequence[Measure], malignant: Malignant
) -> Table:
    """Some measures of all subgroups after one stage, all pictures last, without those defined nowhere."""
    shown = with_all(blocks)
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
    shown = with_all(blocks)
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


FIGURES: Mapping[str, str] = {
    "recall": "recall",
    "precision": "precision",
    "f1": "F1",
    "auroc": "AUROC",
    "auprc": "AUPRC",
}
"""Names in `BY_CLASS`, and on the page."""


def figures_of(labels: Sequence[Label]) -> dict[str, str]:
    """The figures of a class, without AUROC where it is that of malignancy, which other tables tell."""
    twice = auroc_is_of_malignancy(labels)
    return {key: title for key, title in FIGURES.items() if not (twice and key == "auroc")}


def class_table(stage: str, blocks: Mapping[str, Block], labels: Sequence[Label]) -> Table:
    """Every class over all test pictures after one stage, with 95 % intervals."""
    everything = total(blocks)
    figures = figures_of(labels)
    found = [BY_CLASS[key].of_sample(sample_of(everything)).limits() for key in figures]
    rows = []
    for k, label in enumerate(labels):
        n = int(everything.point.confusion[k].sum())
        cells = [cell(Estimate.of(limits[k])) for limits in found]
        rows.append(Row(label_name(label), (Cell(whole(n)), *cells)))
    return Table(
        f"Figures of every disease after {stage}, with 95 % intervals",
        _columns("pictures", figures),
        tuple(rows),
    )


def class_tables_over_clients(data: ReportData) -> tuple[Table, ...]:
    """Every class as a mean over the clients that have it, for each stage that reported it."""
    names = {label.code: label_name(label) for label in data.labels}
    shown = figures_of(data.labels)
    tables = []
    for of in data.facts:
        if by_class := of.facts.get("by_class"):
            rows = [
                Row(
                    names.get(code, code),
                    texts(whole(figures["clients"]), *(number(figures[key]) for key in shown)),
                )
                for code, figures in by_class.items()
            ]
            title = f"Every disease after stage “{of.stage}”, as means over the clients that have it"
            tables.append(Table(title, _columns("clients", shown), tuple(rows)))
    return tuple(tables)


def _columns(counted: str, figures: Mapping[str, str]) -> tuple[str, ...]:
    return ("disease", counted, *figures.values())


MALIGNANT = "malignant"
"""The class that is shown first."""


def unseen_tables(data: ReportData) -> tuple[Table, ...]:
    """One table for every stage that was evaluated on unseen clients (Bdair et al. 2022, Table 9)."""
    return tuple(unseen_table(of) for of in data.facts if of.facts.get("unseen"))


def unseen_table(of: StageFacts) -> Table:
    """Recall, precision and F1 of each class, AUROC and calibration error, one row per unseen client."""
    blocks: Mapping[str, Mapping[str, Any]] = of.facts["unseen"]
    codes = dict.fromkeys(code for block in blocks.values() for code in block["by_class"])
    classes = sorted(codes, key=lambda code: code != MALIGNANT)
    rows = []
    for client, block in blocks.items():
        cells = []
        for code in classes:
            own = block["by_class"].get(code, {})
            n, recall, precision = own.get("n", 0), own.get("recall"), own.get("precision")
            cells.append(Cell(whole(n)))
            cells += texts(number(recall), number(precision), number(f1(recall, precision)))
        rows.append(
            Row(client, (*cells, *(cell(Estimate.in_summary(block, key)) for key in ("auroc", "ece"))))
        )
    columns = [
        f"{code.lower()} {figure}" for code in classes for figure in ("pictures", "recall", "precision", "F1")
    ]
    title = f"On clients never seen in training, after stage “{of.stage}”"
    return Table(title, ("client", *columns, "AUROC", "ECE"), tuple(rows))


def f1(recall: float | None, precision: float | None) -> float | None:
    """2 recall · precision / (recall + precision); 0 where both are, None where either is not defined."""
    if recall is None or precision is None:
        return None
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


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


IN_A_CELL = ("accuracy", "balanced_accuracy", "malignant_sensitivity")

TOO_FEW = "too few to tell"
"""Stands for a group of which clients told fewer than 30 pictures (`registry.bundle.metrics.summary`),
or none: each client keeps to itself what it has too few of."""


def intersection_tables(data: ReportData) -> tuple[Table, ...]:
    """One table per column; one row per value of it and subgroup."""
    columns: Mapping[str, Any] = data.last_test.get("intersections") or {}
    return tuple(_column_table(column, by_value) for column, by_value in columns.items() if by_value)


def _column_table(column: str, by_value: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = tuple(
        Row(f"{value}, {subgroup}", _cell_figures(group))
        for value, by_subgroup in by_value.items()
        for subgroup, group in by_subgroup.items()
    )
    titles = tuple(figure_title(key).lower() for key in IN_A_CELL)
    title = f"Subgroups by {column.replace('_', ' ')}, with 95 % intervals"
    return Table(title, (f"{column.replace('_', ' ')}, subgroup", "pictures", *titles), rows)


def _cell_figures(group: Mapping[str, Any] | None) -> tuple[Cell, ...]:
    if group is None:
        return (Cell(TOO_FEW), *texts(*[ABSENT] * len(IN_A_CELL)))
    n = int(group["n"])
    return (Cell(whole(n)), *(cell(Estimate.in_summary(group, key), "percent") for key in IN_A_CELL))

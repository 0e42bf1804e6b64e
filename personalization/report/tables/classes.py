"""Accuracy by class: over all pictures with intervals, and as means over clients."""

from collections.abc import Mapping, Sequence

from personalization.report.data import ReportData
from personalization.report.measures import Estimate, auroc_is_of_malignancy, total
from personalization.report.numerals import number, whole
from personalization.report.table import Cell, Row, Table, cell, label_name, texts
from registry.bundle.counts.counting import Block
from registry.bundle.labels import Label
from registry.bundle.metrics.intervals import sample_of
from registry.bundle.metrics.summary import BY_CLASS

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

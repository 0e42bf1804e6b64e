"""The final model on clients that took no part in training, with the classes folded to two."""

from collections.abc import Mapping
from typing import Any

from personalization.report.data import ReportData, StageFacts
from personalization.report.measures import Estimate
from personalization.report.numerals import number, whole
from personalization.report.table import Cell, Row, Table, cell, texts

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
        rows.append(Row(client, (*cells, _with_interval(block, "auroc"), _with_interval(block, "ece"))))
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


def _with_interval(block: Mapping[str, Any], key: str) -> Cell:
    ends = (block.get("intervals") or {}).get(key) or (None, None)
    return cell(Estimate(block.get(key), *ends))

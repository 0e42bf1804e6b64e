"""Models that clients have for themselves, each judged on its client's own test pictures."""

from typing import Any

from personalization.report.data import ReportData
from personalization.report.measures import Estimate
from personalization.report.numerals import number, whole
from personalization.report.tables import Cell, Row, Table, cell, texts

COLUMNS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "mean recall",
    "macro_precision": "mean precision",
    "macro_f1": "macro F1",
    "specificity": "specificity",
    "auroc": "AUROC",
}


def client_table(data: ReportData) -> Table | None:
    """One row per client and their mean; None where no stage fine-tuned at the clients."""
    for stage in data.summary.get("stages", ()):
        facts: dict[str, Any] = stage.get("facts") or {}
        if "over_clients" in facts:
            rows = [
                Row(client, texts(whole(own["n"]), *(number(own[key]) for key in COLUMNS)))
                for client, own in facts["by_client"].items()
            ]
            means = tuple(mean_cell(facts["over_clients"][key]) for key in COLUMNS)
            pictures = sum(own["n"] for own in facts["by_client"].values())
            rows.append(Row("mean over clients", (Cell(whole(pictures)), *means), is_total=True))
            return Table(
                f"Each client's own model after stage “{stage['name']}”",
                ("client", "test pictures", *COLUMNS.values()),
                tuple(rows),
            )
    return None


def mean_cell(figure: dict[str, Any]) -> Cell:
    """A mean over clients with its interval."""
    return cell(Estimate(figure["mean"], *(figure["interval"] or (None, None))))

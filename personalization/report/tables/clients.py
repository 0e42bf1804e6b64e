"""Models evaluated on each client's own test pictures: the clients' own models, or the global one."""

from collections.abc import Mapping
from typing import Any

from personalization.report.data import ReportData, StageFacts, communities_of, in_order
from personalization.report.measures import Estimate
from personalization.report.numerals import interval, number, whole
from personalization.report.table import Cell, Row, Table, texts

COLUMNS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "mean recall",
    "macro_precision": "mean precision",
    "macro_f1": "macro F1",
    "specificity": "specificity",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "ece": "ECE",
    "mce": "MCE",
    "aurc": "AURC",
}

_TITLES = {
    "finetune": "Each client’s own model",
    "personalize": "Each client’s own model",
    "federate": "The global model at each client",
    "probe": "The linear probe at each client",
}


def client_tables(data: ReportData) -> tuple[Table, ...]:
    """One table for every stage that reported figures of its clients."""
    return tuple(client_table(of) for of in data.facts if of.facts.get("by_client"))


def client_table(of: StageFacts) -> Table:
    """One row per client, then the means of the communities, then mean (median) ± standard deviation."""
    own: Mapping[str, Any] = of.facts["by_client"]
    over: Mapping[str, Any] = of.facts["over_clients"]
    rows = [
        Row(client, texts(whole(own[client]["n"]), *(number(own[client].get(key)) for key in COLUMNS)))
        for client in in_order(own, communities_of(of.facts))
    ]
    for name, community in (of.facts.get("by_community") or {}).items():
        members = len(community["clients"])
        title = f"{name}, mean over {members} client{'' if members == 1 else 's'}"
        figures = [number(community.get(key)) for key in COLUMNS]
        rows.append(Row(title, texts(whole(community["n"]), *figures), is_total=True))
    pictures = whole(sum(row["n"] for row in own.values()))
    means = tuple(mean_cell(over[key]) for key in COLUMNS)
    rows.append(Row("mean over clients (median) ± deviation", (Cell(pictures), *means), is_total=True))
    title = _TITLES.get(of.kind, "Each client’s test pictures")
    return Table(
        f"{title} after stage “{of.stage}”", ("client", "test pictures", *COLUMNS.values()), tuple(rows)
    )


def mean_cell(figure: Mapping[str, Any]) -> Cell:
    """`0.734 (0.725) ± 0.065` over clients, with the interval of the mean as the note."""
    written = number(figure["mean"])
    if figure.get("median") is not None and figure.get("std") is not None:
        written += f" ({number(figure['median'])}) ±\u202f{number(figure['std'])}"
    return Cell(written, interval(Estimate(figure["mean"], *(figure["interval"] or (None, None)))))

"""Tables of the run itself: job, stages, census, traffic, clients that did not answer, and probes.

Additional cost = bytes downloaded in addition to the weights / bytes of weights downloaded (AC in Table 2 of
Bdair et al. 2022, measured): 1 with one additional model in every round, T with T models. It is given over
all rounds, and over the rounds in which any client received more than the weights, which are those after
warm-up. The client `server` is the coordinator's own and is excluded from all sums.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from personalization.report.data import ReportData, Round, StageFacts, by_stage, in_order
from personalization.report.measures import ABSENT, ALL, cells, duration, interval, number, size, whole
from registry.views.tables import Cell, Row, Table
from training.data.dataset import SERVER
from training.jobs.stages.probe import FIGURES, NOTHING


def facts(run: ReportData) -> tuple[tuple[str, str], ...]:
    """Name and value pairs that identify the run."""
    named = {name.capitalize(): run.summary.get(name) for name in ("job", "recipe", "seed", "digest")}
    groups = (  # `dark: 5, 6 (fitzpatrick) or 0, 1, 2 (milk10k)`
        f"{name}: " + " or ".join(f"{', '.join(values)} ({scale})" for scale, values in tones.items())
        for name, tones in run.tones.items()
    )
    versions = (
        f"{version['model']} version {version['version']} ({version['subgroup']})"
        for version in run.summary.get("versions", ())
    )
    named["Classes"] = ", ".join(label.code for label in run.labels)
    named["Subgroups"] = "; ".join(groups) or None
    named["Registered"] = ", ".join(versions) or None
    return tuple((name, str(value)) for name, value in named.items() if value is not None)


def stages_table(run: ReportData) -> Table:
    """Rounds, time and traffic of every stage."""
    rows = []
    for stage in run.summary.get("stages", ()):
        of_stage = [entry for entry in run.rounds if entry.stage == stage["name"]]
        asked = sum(len(entry.asked) for entry in of_stage)
        missing = asked - sum(len(entry.answered) for entry in of_stage)
        rows.append(
            Row.of(
                stage["name"],
                str(stage.get("rounds", ABSENT)),
                duration(stage["seconds"]) if "seconds" in stage else ABSENT,
                size(stage.get("bytes_down", 0)),
                size(stage.get("bytes_up", 0)),
                f"{missing} of {asked}" if asked else ABSENT,
            )
        )
    columns = ("stage", "rounds", "time", "sent to clients", "sent by clients", "answers missing")
    return Table.of("Stages", columns, rows)


def notes(run: ReportData) -> list[str]:
    """The run's notes, and a sentence on each client that did not answer every time it was asked."""
    asked = Counter(client for entry in run.rounds for client in entry.asked)
    answered = Counter(client for entry in run.rounds for client in entry.answered)
    silent = (
        f"{client} did not answer {times - answered[client]} of the {times} rounds it was asked in."
        for client, times in asked.items()
        if answered[client] < times
    )
    return [*run.notes, *silent]


def census_tables(run: ReportData) -> list[Table]:
    """Pictures by split for every subgroup, client and class."""
    splits = list(dict.fromkeys(row["split"] for row in run.census))
    tables = []
    for title, key in {"subgroup": "subgroup", "client": "client", "class": "label"}.items():
        held: Counter[tuple[str, str]] = Counter()
        for row in run.census:
            for place in ((name, split) for name in (row[key], ALL) for split in (row["split"], ALL)):
                held[place] += row["n"]
        names = [*dict.fromkeys(row[key] for row in run.census), ALL]
        rows = (
            Row.of(
                "all" if name == ALL else name,
                *(whole(held[name, split]) for split in (*splits, ALL)),
                total=name == ALL,
            )
            for name in names
        )
        tables.append(Table.of(f"Pictures by {title}", (title, *splits, "all"), rows))
    return tables if run.census else []


def communication_tables(run: ReportData) -> list[Table]:
    """One table for every stage whose rounds noted bytes by client."""
    tables = []
    for stage, rounds in by_stage(entry for entry in run.rounds if entry.bytes_by_client).items():
        later = [entry for entry in rounds if any(more for _, more, _ in entry.bytes_by_client.values())]
        named = in_order((name for entry in rounds for name in entry.bytes_by_client), run.communities(stage))
        hospitals = [client for client in named if client != SERVER]
        rows = {**{client: [client] for client in hospitals}, "all clients": hospitals}
        if SERVER in named:
            rows[f"{SERVER}, in no sum"] = [SERVER]
        columns = ["client", "sent to it", "of these weights", "of these beside", "sent by it"]
        if later:
            columns += ["additional cost", f"in the {len(later)} rounds with an exchange"]
        title = f"Communication of stage “{stage}”"
        drawn = (
            Row.of(name, *_sent(rounds, later, clients), total=name == "all clients")
            for name, clients in rows.items()
        )
        tables.append(Table.of(title, columns, drawn))
    return tables


def _sent(rounds: Sequence[Round], later: Sequence[Round], clients: Sequence[str]) -> Iterator[str]:
    """What these clients were sent and sent, and what it cost in addition, of the weights."""
    down, more, up = _bytes(rounds, clients)
    yield from map(size, (down, down - more, more, up))
    if later:
        for down, more, _ in (_bytes(rounds, clients), _bytes(later, clients)):
            yield number(more / (down - more) if down != more else None, "percent")


def _bytes(rounds: Sequence[Round], clients: Sequence[str]) -> tuple[int, int, int]:
    own = [
        entry.bytes_by_client[name] for entry in rounds for name in clients if name in entry.bytes_by_client
    ]
    down, more, up = (sum(of[place] for of in own) for place in range(3))
    return down, more, up


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


def client_tables(run: ReportData) -> list[Table]:
    """One table for every stage that reported figures of its clients.

    A row for each client, then the means of the communities, then mean (median) ± standard deviation.
    """
    return [_client_table(of) for of in run.told("by_client")]


def _client_table(of: StageFacts) -> Table:
    own: Mapping[str, Any] = of.facts["by_client"]
    rows = [_row_of_means(client, own[client]) for client in in_order(own, of.communities)]
    for name, row in (of.facts.get("by_community") or {}).items():
        members = len(row["clients"])
        title = f"{name}, mean over {members} client{'' if members == 1 else 's'}"
        rows.append(_row_of_means(title, row, total=True))
    tested = whole(sum(row["n"] for row in own.values()))
    means = (mean_cell(of.facts["over_clients"][key]) for key in COLUMNS)
    rows.append(Row.of("mean over clients (median) ± deviation", tested, *means, total=True))
    title = f"{_TITLES.get(of.kind, 'Each client’s test pictures')} after stage “{of.stage}”"
    return Table.of(title, ("client", "test pictures", *COLUMNS.values()), rows)


def _row_of_means(name: str, row: Mapping[str, Any], *, total: bool = False) -> Row:
    return Row.of(name, whole(row["n"]), *(number(row.get(key)) for key in COLUMNS), total=total)


def mean_cell(figure: Mapping[str, Any]) -> Cell:
    """`0.734 (0.725) ± 0.065` over clients, with the interval of the mean as the note."""
    written = number(figure["mean"])
    if figure.get("median") is not None and figure.get("std") is not None:
        written += f" ({number(figure['median'])}) ±\u202f{number(figure['std'])}"
    return Cell(written, interval(figure["interval"]))


_OF_PROBES = {
    "malignancy_auroc": "AUROC of malignancy",
    "malignant_sensitivity": "sensitivity",
    "malignant_specificity": "specificity",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}


def probe_tables(run: ReportData) -> list[Table]:
    """The figures that were asked for, over all pictures and in each subgroup, of stages with a probe."""
    return [
        Table.of(
            f"Of the encoder, by stage “{of.stage}”, with 95 % intervals",
            ("probe", "test pictures", *_OF_PROBES.values()),
            (
                Row.of(f"{kind}, {place}", whole(int(row["n"])), *cells(row, _OF_PROBES), total=place == ALL)
                for kind in FIGURES
                if kind in of.facts
                for found in (of.facts[kind] or NOTHING,)
                for place, row in {ALL: found, **found["by_subgroup"]}.items()
            ),
        )
        for of in run.facts
        if of.kind == "probe"
    ]

"""Tables of the run itself: job, stages, census, traffic, clients that did not answer, and probes.

Additional cost = bytes downloaded in addition to the weights / bytes of weights downloaded (AC in Table 2 of
Bdair et al. 2022, measured): 1 with one additional model in every round, T with T models. It is given over
all rounds, and over the rounds in which any client received more than the weights, which are those after
warm-up. The client `server` is the coordinator's own and is excluded from all sums.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from personalization.report.data import (
    CensusCell,
    ClientBytes,
    ReportData,
    Round,
    StageFacts,
    by_stage,
    communities_of,
    in_order,
)
from personalization.report.measures import (
    ABSENT,
    ALL,
    Cell,
    Estimate,
    Row,
    Table,
    cell,
    duration,
    interval,
    number,
    size,
    texts,
    whole,
)
from training.data.dataset import SERVER
from training.jobs.stages.probe import FIGURES, NOTHING


def facts(data: ReportData) -> tuple[tuple[str, str], ...]:
    """Name and value pairs that identify the run."""
    summary = data.summary
    released = [
        f"{version['model']} version {version['version']} ({version['subgroup']})"
        for version in summary.get("versions", ())
    ]
    named = (
        ("Job", summary.get("job")),
        ("Recipe", summary.get("recipe")),
        ("Seed", summary.get("seed")),
        ("Digest", summary.get("digest")),
        ("Classes", ", ".join(label.code for label in data.labels)),
        ("Subgroups", "; ".join(map(_group, data.tones.items())) or None),
        ("Registered", ", ".join(released) or None),
    )
    return tuple((name, str(value)) for name, value in named if value is not None)


def _group(named: tuple[str, Mapping[str, Sequence[str]]]) -> str:
    """A subgroup and its tones: `dark: 5, 6 (fitzpatrick) or 0, 1, 2 (milk10k)`."""
    name, tones = named
    return f"{name}: " + " or ".join(f"{', '.join(values)} ({scale})" for scale, values in tones.items())


def stages_table(data: ReportData) -> Table | None:
    """Rounds, time and traffic of every stage."""
    rows = tuple(_stage_row(stage, data.rounds) for stage in data.summary.get("stages", ()))
    columns = ("stage", "rounds", "time", "sent to clients", "sent by clients", "answers missing")
    return Table("Stages", columns, rows) if rows else None


def _stage_row(stage: dict[str, Any], rounds: Sequence[Round]) -> Row:
    of_stage = [entry for entry in rounds if entry.stage == stage["name"]]
    asked = sum(len(entry.asked) for entry in of_stage)
    missing = asked - sum(len(entry.answered) for entry in of_stage)
    return Row(
        stage["name"],
        texts(
            str(stage.get("rounds", ABSENT)),
            duration(stage["seconds"]) if "seconds" in stage else ABSENT,
            size(stage.get("bytes_down", 0)),
            size(stage.get("bytes_up", 0)),
            f"{missing} of {asked}" if asked else ABSENT,
        ),
    )


def silent_clients(rounds: Sequence[Round]) -> tuple[str, ...]:
    """One sentence per client that did not answer every time it was asked."""
    asked = Counter(client for entry in rounds for client in entry.asked)
    answered = Counter(client for entry in rounds for client in entry.answered)
    return tuple(
        f"{client} did not answer {times - answered[client]} of the {times} rounds it was asked in."
        for client, times in asked.items()
        if answered[client] < times
    )


def census_tables(census: Sequence[CensusCell]) -> tuple[Table, ...]:
    """Pictures by split for every subgroup, client and class."""
    if not census:
        return ()
    return (
        _census_table(census, "subgroup", lambda cell: cell.subgroup),
        _census_table(census, "client", lambda cell: cell.client),
        _census_table(census, "class", lambda cell: cell.label),
    )


def _census_table(census: Sequence[CensusCell], title: str, kind: Callable[[CensusCell], str]) -> Table:
    splits = list(dict.fromkeys(cell.split for cell in census))
    held: Counter[tuple[str, str]] = Counter()
    for counted in census:
        held[kind(counted), counted.split] += counted.n
    kinds = list(dict.fromkeys(kind(cell) for cell in census))
    rows = [
        Row(name, texts(*(whole(held[name, split]) for split in splits), whole(_sum(held, [name], splits))))
        for name in kinds
    ]
    totals = [whole(_sum(held, kinds, [split])) for split in splits]
    rows.append(Row("all", texts(*totals, whole(_sum(held, kinds, splits))), is_total=True))
    return Table(f"Pictures by {title}", (title, *splits, "all"), tuple(rows))


def _sum(held: Counter[tuple[str, str]], kinds: Sequence[str], splits: Sequence[str]) -> int:
    return sum(held[name, split] for name in kinds for split in splits)


def communication_tables(data: ReportData) -> tuple[Table, ...]:
    """One table for every stage whose rounds noted bytes by client."""
    tables = []
    for stage, rounds in by_stage(entry for entry in data.rounds if entry.bytes_by_client).items():
        clients = dict.fromkeys(client for entry in rounds for client in entry.bytes_by_client)
        tables.append(_table(stage, rounds, in_order(clients, data.communities(stage))))
    return tuple(tables)


def sent(rounds: Sequence[Round], clients: Sequence[str]) -> ClientBytes:
    """The total bytes of these clients in these rounds."""
    found = [
        entry.bytes_by_client[name] for entry in rounds for name in clients if name in entry.bytes_by_client
    ]
    return reduce(add, found, ClientBytes())


def additional_cost(counted: ClientBytes) -> float | None:
    """AC: bytes sent in addition to the weights over bytes of weights; None where no weights were sent."""
    return counted.beside / counted.weights if counted.weights else None


def with_exchange(rounds: Sequence[Round]) -> list[Round]:
    """The rounds in which more than the weights was sent."""
    return [entry for entry in rounds if any(sizes.beside for sizes in entry.bytes_by_client.values())]


def _table(stage: str, rounds: Sequence[Round], clients: Sequence[str]) -> Table:
    later = with_exchange(rounds)
    hospitals = [client for client in clients if client != SERVER]

    def row(header: str, of: Sequence[str], *, is_total: bool = False) -> Row:
        all_rounds = sent(rounds, of)
        cells = [
            size(value) for value in (all_rounds.down, all_rounds.weights, all_rounds.beside, all_rounds.up)
        ]
        if later:
            cells += [number(additional_cost(over), "percent") for over in (all_rounds, sent(later, of))]
        return Row(header, texts(*cells), is_total)

    rows = [row(client, [client]) for client in hospitals]
    rows.append(row("all clients", hospitals, is_total=True))
    if SERVER in clients:
        rows.append(row(f"{SERVER}, in no sum", [SERVER]))
    columns = ["client", "sent to it", "of these weights", "of these beside", "sent by it"]
    if later:
        columns += ["additional cost", f"in the {len(later)} rounds with an exchange"]
    return Table(f"Communication of stage “{stage}”", tuple(columns), tuple(rows))


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
    return (
        Cell(whole(int(figures["n"]))),
        *(cell(Estimate.in_summary(figures, key)) for key in _COLUMNS),
    )

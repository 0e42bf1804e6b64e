"""The run itself: job, stages, census, and clients that did not answer."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from personalization.report.data import CensusCell, ReportData, Round
from personalization.report.numerals import ABSENT, duration, size, whole
from personalization.report.table import Row, Table, texts


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
    for cell in census:
        held[kind(cell), cell.split] += cell.n
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

"""A database of outcomes that is full: millions of answers, written in bulk into the same tables.

Three versions have answered for a year each, three subgroups and unknown ones, as many each day. What is
written is what `OutcomeStore.record` would have written of the same answers; a sample is recorded through it
and found to be known already, or the filling ends.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from small_model import NAME, small_bundle
from sqlalchemy import delete, func, select

from registry.bundle.evaluation import Decided, Evaluation, GroupCounts
from registry.bundle.folder import Bundle, bundle_digest
from registry.database.connection import reading, writing
from registry.outcomes.store import (
    DECISIONS,
    SIDES,
    UNKNOWN,
    Answering,
    AnsweringRow,
    AnswerRow,
    KeptAnswer,
    OutcomeRow,
    OutcomeStore,
)

LABELS = (("B", False), ("M", True))
SUBGROUPS = ("light", "medium", "dark", UNKNOWN)
VERSIONS = 3
DAYS = 3 * 365
ABOVE, REPORTED, MALIGNANT = 0.3, 0.7, 0.08
TOGETHER = 200_000
COLUMNS = ("id", "day", "answering", "key", "cell", "label", "in_set")
WHERE = "sensitivity_at_threshold"
Row = tuple[str, dt.date, int, str, int, int, str]


@dataclass(frozen=True)
class Filled:
    """What was filled in.

    Attributes:
        answers: how many.
        sample: some answers, drawn from all.
    """

    answers: int
    sample: Sequence[Row]


def bundle_of(number: int) -> Bundle:
    """Version `number`, which promises each subgroup a sensitivity."""
    given = small_bundle(number)
    decided = Decided(suspicious=180)
    row = GroupCounts(n=400, n_malignant=200, decided=decided, intervals={WHERE: (0.84, 0.95)})
    whole = row.model_copy(
        update={"n": 1200, "n_malignant": 600, "decided": Decided(suspicious=540), "intervals": {}}
    )
    evaluation = Evaluation(all=whole, by_subgroup=dict.fromkeys(SUBGROUPS[:-1], row))
    manifest = given.manifest.model_copy(update={"evaluation": evaluation})
    return Bundle(manifest, given.model, bundle_digest(manifest))


def fill(store: OutcomeStore, answers: int, sample: int, seed: int = 0) -> Filled:
    """Fills an empty database; of one that is full the outcomes are taken out.

    Args:
        store: where to.
        answers: how many, spread over the days until yesterday.
        sample: of how many outcomes are to be given.
        seed: of what is drawn.
    """
    with reading(store.engine) as connection:
        filled = connection.scalar(select(AnswerRow.id).limit(1)) is not None
    if filled:
        with writing(store.engine) as connection:
            connection.execute(delete(OutcomeRow))
    else:
        _fill(store, answers, seed)
    with reading(store.engine) as connection:  # ids are drawn, so the first of them are of all days
        rows = connection.execute(select(AnswerRow).order_by(AnswerRow.id).limit(sample)).all()
    kept = [(row.id, row.day, row.answering, row.key, row.cell, row.label, row.in_set) for row in rows]
    _look(store, answers, kept[:100])
    return Filled(answers, kept)


def _fill(store: OutcomeStore, answers: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = _answering(store)
    today = dt.datetime.now(dt.UTC).date()
    part: list[Row] = []
    per_day = np.diff(np.linspace(0, answers, DAYS + 1).round().astype(int))
    for day, n in enumerate(per_day):
        on = today - dt.timedelta(days=DAYS - day)
        part += _of_day(rng, on, int(n), [ids[day * VERSIONS // DAYS, name] for name in SUBGROUPS])
        if len(part) >= TOGETHER:
            _write(store, part)
            part = []
    _write(store, part)


def _answering(store: OutcomeStore) -> dict[tuple[int, str], int]:
    """The ids of versions, made by the store itself: each is given one answer, which is taken away again."""
    for version in range(VERSIONS):
        for name in SUBGROUPS:
            answering = Answering(NAME, version + 1, "global", name, LABELS)
            about = (f"made-{version}-{name}", dt.date(2000, 1, 1), answering, None)
            store.record([KeptAnswer(*about, "below", "report", "B", frozenset())])
    store.forget(dt.date(2000, 1, 2))
    with reading(store.engine) as connection:
        rows = connection.execute(select(AnsweringRow.version, AnsweringRow.subgroup, AnsweringRow.id))
        return {(version - 1, subgroup): id_ for version, subgroup, id_ in rows}


def _of_day(rng: np.random.Generator, on: dt.date, n: int, ids: Sequence[int]) -> Iterator[Row]:
    above = rng.random(n) < ABOVE
    reported = rng.random(n) < REPORTED
    group = rng.choice(len(SUBGROUPS), n, p=(0.4, 0.25, 0.15, 0.2))
    both = rng.random(n) < 0.5
    drawn = rng.bytes(16 * n).hex()
    for place in range(n):
        hexes = drawn[32 * place : 32 * place + 32]
        id_ = f"{hexes[:8]}-{hexes[8:12]}-4{hexes[13:16]}-a{hexes[17:20]}-{hexes[20:]}"
        side, decision = ("above" if above[place] else "below"), ("report" if reported[place] else "refer")
        cell = SIDES.index(side) * len(DECISIONS) + DECISIONS.index(decision)
        label = int(above[place])
        in_set = "11" if both[place] else ("01" if label else "10")
        yield id_, on, ids[group[place]], "app", cell, label, in_set


def _write(store: OutcomeStore, rows: list[Row]) -> None:
    if store.engine.dialect.name == "sqlite":
        raw = store.engine.raw_connection()
        raw.execute("PRAGMA synchronous = OFF")  # type: ignore[attr-defined] # of the driver
        raw.execute("PRAGMA cache_size = -2000000")  # type: ignore[attr-defined]
        marks = ",".join("?" * len(COLUMNS))
        cursor = raw.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(
            f"INSERT INTO answers ({','.join(COLUMNS)}) VALUES ({marks})",
            [(row[0], row[1].isoformat(), *row[2:]) for row in rows],
        )
        cursor.close()
        raw.commit()
        raw.invalidate()  # its pragmas are of the filling alone
        return
    raw = store.engine.raw_connection()
    with raw.cursor() as cursor, cursor.copy(f"COPY answers ({','.join(COLUMNS)}) FROM STDIN") as copy:  # type: ignore[attr-defined]
        for row in rows:
            copy.write_row(row)
    raw.commit()
    raw.close()


def _look(store: OutcomeStore, answers: int, some: Sequence[Row]) -> None:
    """Ends where the tables are not those that the store would have written."""
    with reading(store.engine) as connection:
        found = connection.scalar(select(func.count()).select_from(AnswerRow))
        versions = {
            row.id: Answering(row.model, row.version, row.made_for, row.subgroup, LABELS)
            for row in connection.execute(select(AnsweringRow))
        }
    again = [
        KeptAnswer(*row[:2], versions[row[2]], row[3], "above", "report", LABELS[row[5]][0], frozenset())
        for row in some
    ]
    store.record(again)
    with reading(store.engine) as connection:
        after = connection.scalar(select(func.count()).select_from(AnswerRow))
    if not found == after == answers:
        raise SystemExit(f"{answers} answers were to be written: {found} are, then {after}")

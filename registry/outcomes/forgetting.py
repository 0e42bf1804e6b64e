"""Answers that are removed when their time is over, in pieces that let others write in between.

SQLite has one writer at a time, and gives the lock to whoever finds it free: one who waits looks every tenth
of a second at the latest. So a piece is as large as what takes a part of a second here, and after each one
the lock is free for longer than anybody who waits sleeps.
"""

import time
from collections import Counter
from datetime import date
from typing import Final

from sqlalchemy import Connection, Engine, delete, select, update

from registry.database.connection import reading, writing
from registry.outcomes.tables import AnswerCountRow, AnsweringRow, AnswerRow, OutcomeRow

FIRST: Final = 500
"""Answers of the first transaction."""

SMALLEST, LARGEST = 50, 5000
"""Of any; SQLite allows 32,766 values in a query."""

SECONDS: Final = 0.2
"""What a transaction should take."""

PAUSE: Final = 0.12
"""Seconds between two: SQLite's longest sleep of who waits for the lock is 0.1."""


def forget(engine: Engine, before: date) -> int:
    """Removes answers of days before this one, with their counts and outcomes; returns how many answers.

    Counts agree with the answers after every transaction. Cut short, it is begun again.

    Raises:
        DatabaseError: they cannot be removed.
    """
    removed, size = 0, FIRST
    while True:
        began = time.perf_counter()
        with writing(engine) as connection:
            gone = _piece(connection, before, size)
        if not gone:
            break
        removed += gone
        taken = time.perf_counter() - began
        size = min(LARGEST, max(SMALLEST, int(size * min(2.0, SECONDS / taken))))
        if engine.dialect.name == "sqlite":
            time.sleep(PAUSE)
    with reading(engine) as connection:
        left = connection.scalar(select(AnswerCountRow.n).where(AnswerCountRow.day < before).limit(1))
    if left is not None:
        with writing(engine) as connection:
            _forget_counts(connection, before)
    return removed


def _piece(connection: Connection, before: date, size: int) -> int:
    """Removes so many answers, with their outcomes, and takes them off their counts."""
    asked = (
        select(AnswerRow.id, AnswerRow.answering, AnswerRow.day, AnswerRow.cell)
        .where(AnswerRow.day < before)
        .order_by(AnswerRow.day)
        .limit(size)
    )
    rows = connection.execute(asked).all()
    if not rows:
        return 0
    ids = [row.id for row in rows]
    connection.execute(delete(OutcomeRow).where(OutcomeRow.answer.in_(ids)))
    connection.execute(delete(AnswerRow).where(AnswerRow.id.in_(ids)))
    for (answering, day, cell), n in Counter((row.answering, row.day, row.cell) for row in rows).items():
        where = (
            AnswerCountRow.answering == answering,
            AnswerCountRow.day == day,
            AnswerCountRow.cell == cell,
        )
        connection.execute(update(AnswerCountRow).where(*where).values(n=AnswerCountRow.n - n))
        connection.execute(delete(AnswerCountRow).where(*where, AnswerCountRow.n <= 0))
    return len(rows)


def _forget_counts(connection: Connection, before: date) -> None:
    """Removes counts of days without answers; by their versions they are looked up, and else looked for."""
    of_all = AnswerCountRow.answering.in_(select(AnsweringRow.id))
    connection.execute(delete(AnswerCountRow).where(of_all, AnswerCountRow.day < before))

"""Answers to put into a database of outcomes."""

import uuid
from datetime import date, timedelta

from registry.outcomes.records import Answering, Decided, KeptAnswer, Side, cell_of

FIRST = date(2026, 1, 1)
ANSWERING = Answering("demo", 1, "global", "dark", "", (("MEL", True), ("NV", False), ("BCC", True)))


def kept_answer(
    day: int = 0,
    *,
    malignancy: float = 0.9,
    label: str = "MEL",
    in_set: frozenset[str] = frozenset({"MEL"}),
    key: str | None = "k1",
    decision: Decided = "report",
    side: Side | None = None,
    answering: Answering = ANSWERING,
) -> KeptAnswer:
    """An answer of the day, suspicious from one half on."""
    cell = cell_of(side or ("above" if malignancy >= 0.5 else "below"), decision, malignancy)
    return KeptAnswer(str(uuid.uuid4()), FIRST + timedelta(days=day), answering, key, cell, label, in_set)


def of_version(number: int) -> Answering:
    """A version of the same model for everybody."""
    return Answering("demo", number, "global", ANSWERING.subgroup, "", ANSWERING.labels)

"""Answers and outcomes to put into a database."""

import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any

from registry.bundle.decision import Level
from registry.outcomes.store import Answering, Decided, KeptAnswer, Outcome, OutcomeStore, Side
from tests.registry.conftest import MODEL

FIRST = date(2026, 1, 1)
ANSWERING = Answering("demo", 1, "global", "dark", (("MEL", True), ("NV", False), ("BCC", True)))
WHERE = "sensitivity_at_threshold"
BEGAN = (datetime.now(UTC).date() - FIRST).days - 60
"""The first day of answers to a version of `MODEL`, as `kept_answer` counts days: two months ago."""


def kept_answer(
    day: int = 0,
    *,
    malignancy: float = 0.9,
    label: str = "MEL",
    in_set: frozenset[str] = frozenset({"MEL"}),
    key: str | None = "k1",
    decision: Decided = "report",
    side: Side | None = None,
    triage: Level | None = None,
    answering: Answering = ANSWERING,
) -> KeptAnswer:
    """An answer of the day, suspicious from one half on."""
    side = side or ("above" if malignancy >= 0.5 else "below")
    on_day = FIRST + timedelta(days=day)
    return KeptAnswer(str(uuid.uuid4()), on_day, answering, key, side, decision, label, in_set, triage)


def of_version(number: int, model: str = "demo") -> Answering:
    """A version for everybody, as the service names it with its answers."""
    return Answering(model, number, "global", ANSWERING.subgroup, ANSWERING.labels)


def on(day: int) -> date:
    """So many days after the first answer to a version of `MODEL`."""
    return FIRST + timedelta(days=BEGAN + day)


def promising(low: float = 0.9) -> dict[str, Any]:
    """Test metrics of a version whose target for dark skin is this sensitivity."""
    row = {
        "n": 10_000,
        "n_malignant": 5000,
        "n_other": 5000,
        "accuracy": 0.8,
        "answered": 1.0,
        "reported": 1.0,
    }
    row |= {"reported_risk": 0.0, WHERE: low + 0.02, "intervals": {WHERE: [low, low + 0.05]}}
    return {**row, "by_subgroup": {"dark": row}}


def miss_target(
    store: OutcomeStore, version: int, *, first: int = 38, days: int = 6, found: int = 25, lost: int = 25
) -> list[KeptAnswer]:
    """Answers and outcomes of a version that misses half of the melanomas; returns the missed ones.

    Outcomes arrive on so many days, from the `first` after the first answer on.
    """
    missed = []
    answering = of_version(version, MODEL)
    for day in range(first, first + days):
        called = [kept_answer(BEGAN, answering=answering) for _ in range(found)]
        quiet = {"malignancy": 0.1, "label": "NV", "in_set": frozenset({"NV"})}
        silent = [kept_answer(BEGAN, answering=answering, **quiet) for _ in range(lost)]
        store.record([*called, *silent])
        both = (*called, *silent)
        store.give([Outcome(one.id, "MEL", "histopathology", on(day)) for one in both], "k1", on(day))
        missed += silent
    return missed

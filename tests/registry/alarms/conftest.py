"""A model whose versions promise dark skin a sensitivity, and outcomes that speak against one."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from registry.environment import OUTCOMES
from registry.gates import GateSet, SpreadGate
from registry.outcomes.records import Answering, KeptAnswer, Outcome
from registry.outcomes.store import OutcomeStore
from registry.registry import Registry
from tests.registry.conftest import MODEL
from tests.registry.kept_answers import ANSWERING, FIRST, kept_answer

WHERE = "sensitivity_at_threshold"
BEGAN = (datetime.now(UTC).date() - FIRST).days - 60
"""The first day of answers, as `kept_answer` counts days: two months ago."""


def on(day: int) -> date:
    """So many days after the first answer."""
    return FIRST + timedelta(days=BEGAN + day)


def promising(low: float = 0.9) -> dict[str, Any]:
    """Test figures of a version that promises dark skin this sensitivity."""
    row = {"n": 50, "accuracy": 0.8, WHERE: low + 0.02, "intervals": {WHERE: [low, low + 0.05]}}
    return {"n": 50, "by_subgroup": {"dark": row}, "reported": 1.0, "reported_risk": 0.0, **row}


def answering(version: int) -> Answering:
    """The version as the service names it beside its answers."""
    return Answering(MODEL, version, "global", "dark", "", ANSWERING.labels)


@pytest.fixture
def outcomes_url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where outcomes are; of the kind that the registry is of."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'outcomes.db'}"
    return str(request.getfixturevalue("empty_database"))


@pytest.fixture
def store(outcomes_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutcomeStore]:
    """The database of outcomes, which the environment names."""
    monkeypatch.setenv(OUTCOMES, outcomes_url)
    with OutcomeStore.open(outcomes_url) as opened:
        yield opened


@pytest.fixture
def model(registry: Registry, bundle: Callable[..., Any]) -> Registry:
    """A registry with four versions for everybody, which promise dark skin a sensitivity."""
    registry.add([bundle(metrics=promising(), seed=seed) for seed in range(4)])
    return registry


def break_promise(
    store: OutcomeStore, version: int, *, first: int = 38, days: int = 6, found: int = 25, lost: int = 25
) -> list[KeptAnswer]:
    """Answers and outcomes of a version that misses half of the melanomas; returns the missed ones.

    Outcomes come in on so many days, from the `first` after the first answer on.
    """
    missed = []
    for day in range(first, first + days):
        called = [kept_answer(BEGAN, malignancy=0.9, answering=answering(version)) for _ in range(found)]
        quiet = {"malignancy": 0.1, "label": "NV", "in_set": frozenset({"NV"})}
        silent = [kept_answer(BEGAN, answering=answering(version), **quiet) for _ in range(lost)]
        store.record([*called, *silent])
        store.give(
            [Outcome(one.id, "MEL", "histopathology", on(day)) for one in (*called, *silent)], "k1", on(day)
        )
        missed += silent
    return missed


def alarmed(registry: Registry, store: OutcomeStore, version: int) -> None:
    """Has a version break its promise, and history told of it."""
    break_promise(store, version)
    assert registry.tell_alarms(MODEL, registry.field(MODEL, store))


@pytest.fixture
def released(model: Registry) -> Registry:
    """Releases 1 to 3 to production, of versions 1 to 3; no gate is asked."""
    model.set_gates(GateSet(gates=(SpreadGate(limit=0.99),)), reason="a test")
    for number in (1, 2, 3):
        model.promote(MODEL, [number], to="production")
    return model


def serving(registry: Registry) -> list[int]:
    """The versions under production."""
    release = registry.release(MODEL, "production")
    return [] if release is None else [one.number for one in release.versions]

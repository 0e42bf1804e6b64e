"""Queries that read no more of the events than is asked for."""

import pytest

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import reading, writing
from registry.database.queries import events_of, events_since, last_move, moves_of, stack_of
from registry.gates import GateSet, SpreadGate

MODEL = "skin-lesion"
WHO = AuditContext("tester")


@pytest.fixture
def told(registry, bundle):
    """Two promotions to production, a rollback, and approvals between and after."""
    registry.add([bundle(), bundle(seed=1)])
    with writing(registry._engine) as connection:
        insert_event(connection, "approved", MODEL, WHO, alias="production", details={"candidate": "a"})
    for number in (1, 2):
        registry.promote(MODEL, [number], to="production", override_gates=True, reason="a test")
    registry.promote(MODEL, [1], to="staging", override_gates=True, reason="a test")
    registry.rollback(MODEL, alias="production")
    with writing(registry._engine) as connection:
        insert_event(connection, "approved", MODEL, WHO, alias="production", details={"candidate": "b"})
        insert_event(connection, "approved", MODEL, WHO, alias="other", details={"candidate": "c"})
    return registry._engine


def test_moves_are_kinds_and_releases_alone(told):
    with reading(told) as connection:
        moves = moves_of(connection, MODEL, "production")
        events = events_of(connection, MODEL, "production")
    assert moves == (("promoted", 1), ("promoted", 2), ("rolled-back", 1))
    assert stack_of(moves) == [1]
    assert stack_of(moves) == stack_of((event.kind, event.release) for event in events)


def test_events_since_the_last_move_are_those_after_it(told):
    with reading(told) as connection:
        (event,) = _since_last_move(connection, "production")
        (never_moved,) = _since_last_move(connection, "other")
        assert _since_last_move(connection, "nothing") == ()
    assert (event.kind, event.details["candidate"]) == ("approved", "b")
    assert never_moved.details["candidate"] == "c"


def test_events_of_some_kinds_are_these(told):
    with reading(told) as connection:
        kinds = {one.kind for one in events_of(connection, MODEL, kinds=("promoted", "added"))}
    assert kinds == {"promoted", "added"}


def test_a_rollback_and_a_promotion_read_no_gate_report_of_before(told, registry, monkeypatch):
    """A thousand promotions leave a thousand reports, and none says anything of where to go back to."""
    registry.promote(MODEL, [2], to="production", override_gates=True, reason="a test")
    before = [one for one in registry.history(MODEL) if one.gates is not None]
    read = []
    monkeypatch.setattr(
        "registry.database.queries.GateReport.model_validate",
        lambda stored: read.append(stored) or type(before[0].gates)(**stored),
    )
    registry.rollback(MODEL, alias="production")
    assert read == []


def _since_last_move(connection, alias):
    return events_since(connection, MODEL, alias, last_move(connection, MODEL, alias))


def test_a_release_is_told_with_its_own_gate_reports_alone(told, registry, monkeypatch):
    """Who compares, shows or promotes asks how the running release came through, and not all before it."""
    for number in (1, 2, 1):
        registry.promote(MODEL, [number], to="production", override_gates=True, reason="a test")
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.5),)), reason="a test")
    event = registry.history(MODEL)[-2]
    read = []
    monkeypatch.setattr(
        "registry.database.queries.GateReport.model_validate",
        lambda stored: read.append(stored) or type(event.gates)(**stored),
    )
    for ask, reports in (
        (lambda: registry.let_through(MODEL, "production"), 1),
        (lambda: registry.compare(MODEL, [2], to="production"), 1),
        (lambda: registry.judge_again(MODEL, alias="production"), 1),
    ):
        read.clear()
        ask()
        assert len(read) == reports
    assert registry.let_through(MODEL, "production").event == event.id


def test_the_newest_of_history_are_its_end(told, registry):
    whole = registry.history(MODEL)
    assert registry.history_length(MODEL) == len(whole) > 3
    assert registry.history(MODEL, 3) == whole[-3:]

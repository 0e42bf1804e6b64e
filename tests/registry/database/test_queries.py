"""Queries that read no more of the events than is asked for, and the hash of an event."""

import hashlib

import pytest

from registry.database.changes import AuditContext, insert_event
from registry.database.connection import writing
from registry.database.tables import canonical_json, event_hash
from registry.gates import GateSet, SpreadGate

pytestmark = pytest.mark.both_databases

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
        (lambda: registry.judge_again(MODEL, alias="production"), 2),
    ):
        read.clear()
        ask()
        assert len(read) == reports
    assert registry.let_through(MODEL, "production").event == event.id


def test_the_hash_is_that_of_the_text_written_by_hand():
    facts = {
        "id": 1,
        "actor": "Zoë",
        "alias": None,
        "versions": [2, 1],
        "overridden": False,
        "hash": "ignored",
    }
    text = '{"actor":"Zoë","alias":null,"id":1,"overridden":false,"versions":[2,1]}'
    assert event_hash(facts) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_a_number_that_json_has_not_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})

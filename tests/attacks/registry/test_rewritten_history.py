"""History written anew as a whole.

Whoever may write into the database changes every event, and gives each the hash that it should have. The
chain is valid then, so nothing in the database tells. What was kept elsewhere does.
"""

import json

import pytest

from registry.database.tables import GENESIS, EventRow, event_hash

pytestmark = pytest.mark.both_databases

MODEL = "skin-lesion"
LIE = "nobody refused"


@pytest.fixture
def history(registry, bundle):
    """A registry with a release against the gates, and a note that came later."""
    registry.add([bundle(), bundle(seed=1)])
    registry.promote(MODEL, [1], to="production", override_gates=True, reason="although a gate refuses")
    registry.note(MODEL, 2, "looked at")
    return registry


def innocent(event):
    """The event of the promotion, as if no gate had been overridden."""
    if event["kind"] == "promoted":
        return {**event, "overridden": False, "reason": LIE, "gates": None}
    return event


def rewrite(registry, places, lie, *, drop=lambda event: False):
    """Writes all of history anew, each event as `lie` tells it, but for those to drop."""
    last, told = GENESIS, []
    for event in registry.audit():
        if not drop(event):
            facts = {**lie(event), "id": len(told) + 1, "previous": last}
            last = event_hash(facts)
            told.append({**facts, "hash": last})
    rows = [
        f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({', '.join(map(sql, row))})"
        for row in values(told)
    ]
    places.tamper("DELETE FROM events", *rows, f"UPDATE audit_head SET events = {len(told)}, hash = '{last}'")


COLUMNS = [column.name for column in EventRow.__table__.columns]


def values(events):
    for event in events:
        yield [
            json.dumps(event[name]) if name in ("versions", "gates", "details") and event[name] is not None
            else event[name]
            for name in COLUMNS
        ]  # fmt: skip


def sql(value):
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def test_nothing_in_the_database_tells_of_a_history_that_was_written_anew(history, places):
    rewrite(history, places, innocent)
    assert history.verify() == ()
    (promoted,) = [event for event in history.history(MODEL) if event.kind == "promoted"]
    assert (promoted.overridden, promoted.reason) == (False, LIE)


@pytest.mark.parametrize("kept", ["text", "file"])
def test_a_head_that_was_kept_tells(history, places, command, tmp_path, kept):
    file = tmp_path / "head.json"
    head = command("head", "--out", file).out.splitlines()[0] if kept == "text" else file
    if kept == "file":
        command("head", "--out", file)
    history.note(MODEL, 2, "looked at again")
    assert command("verify", "--head", head).code == 0  # history went on
    rewrite(history, places, innocent)
    assert command("verify").code == 0
    ended = command("verify", "--head", head)
    assert ended.code == 1
    assert "the head of 3 events: the hash was " in ended.out
    assert "the chain was written anew" in ended.out


def test_a_head_tells_of_events_that_were_left_out_at_the_end(history, places, command):
    head = command("head").out.strip()
    rewrite(history, places, dict, drop=lambda event: event["kind"] == "noted")
    assert command("verify").code == 0
    ended = command("verify", "--head", head)
    assert (ended.code, ended.out.splitlines()[0].split(";")[0]) == (
        1, "the head of 3 events: there are 2 now: events after them were removed",
    )  # fmt: skip


def test_a_head_tells_of_history_before_it_alone(history, places, command):
    head = f"1:{history.audit()[0]['hash']}"
    rewrite(history, places, innocent)
    assert command("verify", "--head", head).code == 0


def test_the_head_of_another_registry_is_no_proof(history, places, command, tmp_path):
    file = tmp_path / "head.json"
    command("head", "--out", file)
    facts = json.loads(file.read_text())
    file.write_text(json.dumps({**facts, "registry": "f" * 32}))
    ended = command("verify", "--head", file)
    assert ended.code == 1
    assert f"it was kept of the registry {'f' * 32}, and this one is {facts['registry']}" in ended.out

"""What was changed behind the registry's back is named by `verify`, whatever it was."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from registry.database.tables import event_hash
from registry.environment import current_host
from registry.errors import DatabaseError, NotFound
from tests.registry.conftest import draw_bundle, figures, tones_of

MODEL = "skin-lesion"
PAGE = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
(SCRIPT,) = re.findall(r"```python\n(import hashlib.*?)```", PAGE, flags=re.DOTALL)


def fill(registry):
    both, dark = figures(light=0.9, dark=0.9), tones_of("dark", "4", "5", "6")
    registry.add(
        [draw_bundle(metrics=both), draw_bundle(dark, metrics=figures(dark=0.9)), draw_bundle(seed=1)]
    )
    registry.promote(MODEL, [1, 2], to="production", override_gates=True, reason="the first é")
    registry.promote(MODEL, [3], to="production", override_gates=True, reason="better")
    registry.rollback(MODEL, alias="production", reason="worse")
    key, _ = registry.create_key("ward 3")
    registry.revoke_key(key.id)
    registry.add([draw_bundle(seed=5, model="other")])


@pytest.fixture
def told(filled):
    """A registry of which seven events tell: 1 and 7 added, 2 to 4 of production, 5 and 6 of a key."""
    return filled(fill)


def found(registry):
    return [f"{problem.about}: {problem.text}" for problem in registry.verify()]


def test_every_event_holds_its_hash_and_the_one_before(told):
    assert told.verify() == ()
    events = told.audit()
    assert [event["id"] for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert [event["kind"] for event in events] == [
        "added", "promoted", "promoted", "rolled-back", "key-created", "key-revoked", "added",
    ]  # fmt: skip
    last = "sha256:" + "0" * 64
    for event in events:
        assert event["previous"] == last
        assert event_hash(event) == event["hash"]
        last = event["hash"]


def test_events_tell_what_versions_and_releases_are(told, bundle, dark):
    added, promoted, *_ = told.history(MODEL)
    first, second, third = told.versions(MODEL)
    assert added.host == promoted.host == current_host()
    assert [one["digest"] for one in added.details["versions"]] == [
        one.digest for one in (first, second, third)
    ]
    assert added.details["versions"][1] == {
        "number": 2,
        "digest": second.digest,
        "model_digest": bundle().manifest.file.sha256,
        "subgroup": "dark",
        "scale": "fitzpatrick",
        "tones": ["4", "5", "6"],
        "created": second.created.isoformat(timespec="microseconds"),
    }
    members = [
        {"number": 1, "digest": first.digest, "subgroup": "global"},
        {"number": 2, "digest": second.digest, "subgroup": "dark"},
    ]
    back = told.history(MODEL)[-1]
    assert promoted.details["members"] == members == back.details["members"]
    assert told.history(MODEL)[2].details["members"] == [
        members[1], {"number": 3, "digest": third.digest, "subgroup": "global"},
    ]  # fmt: skip


def test_keys_made_and_revoked_are_events_without_their_secret(registry):
    key, secret = registry.create_key("ward 3")
    registry.revoke_key(key.id)
    registry.revoke_key(key.id)
    made, revoked = registry.audit()
    assert [made["kind"], revoked["kind"]] == ["key-created", "key-revoked"]
    assert (made["model"], made["actor"]) == ("", "tester")
    for event in (made, revoked):
        assert (event["details"]["id"], event["details"]["name"]) == (key.id, "ward 3")
        assert secret not in json.dumps(event)
        assert secret.split("_", 2)[2] not in json.dumps(event)  # which may hold an underscore itself


CHANGES = {
    "time": "'2001-01-01T00:00:00.000000+00:00'",
    "actor": "'nobody'",
    "kind": "'added'",
    "model": "'other'",
    "alias": "'staging'",
    "versions": "'[1]'",
    "release_id": "2",
    "before_id": "1",
    "reason": "'the first e'",
    "gates": "NULL",
    "overridden": "NOT overridden",
    "host": "'elsewhere'",
    "details": "'{}'",
    "previous": "'sha256:" + "1" * 64 + "'",
    "hash": "'sha256:" + "1" * 64 + "'",
}


@pytest.mark.parametrize(("column", "value"), CHANGES.items(), ids=list(CHANGES))
def test_a_changed_event_is_named(told, places, column, value):
    places.tamper(f"UPDATE events SET {column} = {value} WHERE id = 2")
    assert found(told)[0].startswith("event 2: it was changed")


def test_an_event_whose_hash_was_made_anew_leaves_the_next_one_loose(told, places):
    event = told.audit()[1]
    forged = event_hash({**event, "actor": "nobody"})
    places.tamper(f"UPDATE events SET actor = 'nobody', hash = '{forged}' WHERE id = 2")
    (problem,) = found(told)
    assert problem.startswith("event 3: it follows an event of hash")
    assert event["hash"] in problem
    assert forged in problem


@pytest.mark.parametrize(
    ("gone", "named"), [(1, "event 2"), (2, "event 3"), (6, "event 7"), (7, "the last event")]
)
def test_a_removed_event_is_found(told, places, gone, named):
    places.tamper(f"DELETE FROM events WHERE id = {gone}")
    assert found(told)[0].startswith(f"{named}: ")


def test_an_event_put_in_is_found(told, places):
    end = told.audit()[-1]
    forged = {**end, "id": 8, "actor": "somebody", "previous": end["hash"]}
    columns = ", ".join(name for name in forged if name not in ("id", "actor", "previous", "hash"))
    places.tamper(
        f"INSERT INTO events (id, actor, previous, hash, {columns}) SELECT 8, 'somebody', hash, "
        f"'{event_hash(forged)}', {columns} FROM events WHERE id = 7"
    )
    assert found(told)[0].startswith("the last event: audit_head says 7 events")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit_head",
        "UPDATE audit_head SET events = 6",
        "INSERT INTO audit_head VALUES (2, 7, 'x')",
    ],
)
def test_an_end_that_was_changed_is_found(told, places, statement):
    places.tamper(statement)
    (problem,) = found(told)
    assert "audit_head" in problem


def test_without_its_end_no_event_is_added(told, places, bundle):
    places.tamper("DELETE FROM audit_head")
    before = told.versions()
    with pytest.raises(DatabaseError, match="where its chain of events ends"):
        told.add([bundle(seed=9)])
    assert told.versions() == before


@pytest.mark.sqlite  # a server's JSON columns take nothing else
@pytest.mark.parametrize("column", ["versions", "gates", "details"])
def test_what_is_no_json_is_told(told, places, column):
    places.tamper(f"UPDATE events SET {column} = 'no json' WHERE id = 2")
    assert found(told)[0].startswith("event 2: it was changed")


@pytest.mark.parametrize(
    ("statement", "about", "part"),
    [
        (f"UPDATE versions SET digest = 'sha256:{'a' * 64}' WHERE id = 2", "version 2 of", "digest"),
        (f"UPDATE versions SET model_digest = 'sha256:{'a' * 64}' WHERE id = 1", "version 1", "model_digest"),
        ("UPDATE versions SET subgroup = 'light' WHERE id = 2", "version 2 of", "'light' instead of 'dark'"),
        ("UPDATE versions SET scale = 'monk' WHERE id = 2", "version 2 of skin-lesion", "scale 'monk'"),
        ("UPDATE versions SET tones = '[\"1\"]' WHERE id = 2", "version 2 of skin-lesion", "tones ['1']"),
        ("UPDATE versions SET created = '2001-01-01T00:00:00+00:00' WHERE id = 2", "version 2", "created"),
        ("UPDATE versions SET number = 9 WHERE id = 3", "version 9 of skin-lesion", "no event tells"),
        ("UPDATE versions SET number = 9 WHERE id = 3", "version 3 of skin-lesion", "it is gone"),
        ("DELETE FROM versions WHERE model = 'other'", "version 1 of other", "events tell of it"),
        (
            "INSERT INTO versions SELECT 9, 'new', number, digest, model_digest, subgroup, scale, tones, "
            "created FROM versions WHERE id = 1",
            "version 1 of new",
            "no event tells of it",
        ),
        ("UPDATE release_members SET version_id = 3 WHERE version_id = 1", "release 1", "members"),
        ("DELETE FROM release_members WHERE release_id = 1 AND version_id = 2", "release 1", "members"),
        ("INSERT INTO releases VALUES (9, 'skin-lesion', '2001')", "release 9 of", "no event tells of it"),
        ("UPDATE api_keys SET revoked = NULL", "key ", "revoked None instead of"),
        (f"UPDATE api_keys SET sha256 = 'sha256:{'a' * 64}'", "key ", "sha256 'sha256:aaa"),
        ("UPDATE api_keys SET name = 'mine'", "key ", "name 'mine' instead of 'ward 3'"),
        ("DELETE FROM api_keys", "key ", "events tell of it and it is gone"),
        ("UPDATE api_keys SET scopes = '[\"read\"]'", "key ", "scopes ['read'] instead of"),
        ("UPDATE api_keys SET expires = '2001'", "key ", "expires '2001' instead of None"),
        ("UPDATE api_keys SET per_minute = 9", "key ", "per_minute 9 instead of None"),
        ("UPDATE api_keys SET replaces = 'x'", "key ", "replaces 'x' instead of None"),
        (
            "INSERT INTO api_keys (id, name, sha256, created, scopes) "
            "VALUES ('x', 'mine', 'sha256:0', '2001', '[\"operate\"]')",
            "key x",
            "no event tells",
        ),
    ],
)  # fmt: skip
def test_a_table_that_is_not_as_the_events_tell_is_named(told, places, statement, about, part):
    places.tamper(statement)
    problems = found(told)
    assert any(problem.startswith(about) and part in problem for problem in problems), problems


def check(path):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=60
    )


def test_the_script_of_the_docs_checks_what_audit_writes(told, command, tmp_path):
    path = tmp_path / "audit.jsonl"
    last = told.audit()[-1]["hash"]
    ended = command("audit", "--out", path)
    assert (ended.code, ended.out) == (0, f"7 events in {path}, the last of hash {last}\n")
    assert check(path).stdout == f"7 events, the last of hash {last}\n"

    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "the first é" in lines[1]
    for harmed, where in (
        ([*lines[:1], lines[1].replace("the first é", "the first e"), *lines[2:]], "line 2, event 2"),
        ([*lines[:3], *lines[4:]], "line 4, event 5"),
        (lines[1:], "line 1, event 2"),
    ):
        path.write_text("".join(harmed), encoding="utf-8")
        ended = check(path)
        assert (ended.returncode, ended.stderr) == (1, f"{where}: it does not fit\n")
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    assert last not in check(path).stdout  # a missing end shows against a hash that was kept


@pytest.mark.sqlite
@pytest.mark.parametrize("said", ["added", "imported", "gates-changed", "key-created", "promoted"])
@pytest.mark.parametrize(
    "details", ["5", "[1]", '{"versions": 5}', '{"versions": [{"x": 1}]}', '{"origin": 5}', '{"after": 5}']
)
def test_details_of_any_form_are_told_of_and_stop_nothing(registry, bundle, places, said, details):
    registry.add([bundle()])
    places.tamper(f"UPDATE events SET kind = '{said}', details = '{details}'")
    assert "event 1: it was changed" in found(registry)[0]


def test_a_last_event_that_was_removed_is_found_after_others_were_added(told, places, bundle):
    places.tamper("DELETE FROM events WHERE id = 7", "DELETE FROM versions WHERE model = 'other'")
    told.add([bundle(seed=6)])
    assert found(told)[0].startswith("event 7: it follows an event of hash")


def test_what_fails_leaves_the_chain_as_it_was(told):
    before = told.audit()
    with pytest.raises(NotFound):
        told.promote(MODEL, [99], to="production")
    with pytest.raises(NotFound):
        told.rollback(MODEL, alias="nowhere")
    assert told.audit() == before
    assert told.verify() == ()

"""Events, releases, keys and people in words."""

from datetime import UTC, datetime, timedelta

import pytest

from registry.bundle.labels import Subgroup
from registry.gate_report import GateReport, GateResult
from registry.records import ApiKey, Event, Person, Release, Version
from registry.views.records import (
    NOT_SIGNED,
    event_lines,
    event_view,
    key_table,
    people_table,
    release_line,
    version_table,
)

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SETS = {"before": {"model": "", "number": 0}, "after": {"model": "m", "number": 2, "alias": "p"}}
ORIGIN = {
    "release": 7, "alias": "production", "versions": [{"number": 1}, {"number": 2}], "time": "then",
    "event": 3, "registry": None, "key": None,
}  # fmt: skip
ALARM = {"alarm": 4, "of": "sensitivity", "subgroup": "dark"}
BROKEN = {"least": 0.8, "day": "2026-01-01", "outcomes": 1234, "evidence": 25.5, "limit": 20}


def event(kind, **parts):
    given = {
        "id": 3, "time": WHEN, "actor": "ann", "kind": kind, "model": "demo", "alias": None, "versions": (),
        "release": None, "before": None, "reason": None, "gates": None, "overridden": False, "host": None,
        "details": None, "previous": "", "hash": "",
    }  # fmt: skip
    return Event(**{**given, **parts})


@pytest.mark.parametrize(
    ("kind", "parts", "title", "details"),
    [
        ("added", {"versions": (1, 2)}, "added versions 1, 2", []),
        ("promoted", {"versions": (1,), "alias": "p", "release": 2, "before": 1, "reason": "so",
                      "details": {"without": ["dark"], "approved_by": ["b", "c"], "canary": 9}},
         "promoted version 1, p: release 1 -> 2",
         ["ended: the canary, release 9", "without a version for: dark", "approved by: b, c", "reason: so"]),
        ("promoted", {"alias": "p", "release": 2}, "promoted, p: release none -> 2", []),
        ("rolled-back", {"alias": "p", "release": 1, "before": 3, "details": {
            "because": [5], "skipped": [{"release": 2, "withdrawn": [4, 5]}]}},
         "rolled-back, p: release 3 -> 1",
         ["since withdrawn: version 5", "skipped: release 2, which holds version 4, 5, withdrawn"]),
        ("stopped", {"alias": "p", "before": 3}, "stopped, p: release 3 -> nothing", []),
        ("withdrawn", {"versions": (5,)}, "withdrawn version 5", ["WITHDRAWN for good"]),
        ("canary-started", {"alias": "p", "release": 4, "before": 1,
                            "details": {"share": 0.05, "subgroup": "dark", "share_before": 0.2}},
         "canary-started, p: 0.05 of requests for dark to release 4, beside 1", ["its share was: 0.2"]),
        ("gates-changed", {"alias": "p", "details": SETS},
         "gates-changed: set 0 for all models -> set 2 of m under p", []),
        ("tagged", {"versions": (1,), "details": {"tags": ["a", "b"]}}, "tagged version 1: a, b", []),
        ("noted", {"versions": (1,), "details": {"note": "weak"}}, "noted version 1", ["note: weak"]),
        ("approved", {"versions": (1,), "alias": "p", "details": {"over_gates": True}},
         "approved version 1 for p although gates refuse", []),
        ("approved", {"details": {"gates": "x", "model": ""}}, "approved: the gate set x for all models", []),
        ("approved", {"details": {"name": "b", "roles": ["approver"], "fingerprint": "ab"}},
         "approved: adding b (approver) with the key ab", []),
        ("alarm", {"details": ALARM | BROKEN}, "alarm", [
            "alarm 4: sensitivity promised to dark, 0.80 or more, broken on 2026-01-01 (1,234 outcomes, "
            "evidence 25.5 of 20)"]),
        ("alarm-closed", {"details": ALARM}, "alarm-closed", ["alarm 4: sensitivity promised to dark"]),
        ("imported", {"details": {"origin": ORIGIN}}, "imported", [
            "from: release 7 under production (versions 1, 2 there), promoted at then (event 3 of registry "
            "unknown), signed by nobody"]),
        # The writer of a file names any key: no signature of the promotion is in it.
        ("imported", {"details": {"origin": {**ORIGIN, "versions": [], "registry": "r", "key": "sha256:ab"}}},
         "imported", [
            "from: release 7 under production (versions  there), promoted at then (event 3 of registry r), "
            "signed, it says, with the key sha256:ab"]),
    ],
)  # fmt: skip
def test_an_event_in_words(kind, parts, title, details):
    view = event_view(event(kind, **parts))
    assert (view.title, list(view.details)) == (title, details)


SIGNED = {"details": {"signed": {"key": "ab"}}}


@pytest.mark.parametrize(
    ("parts", "forged", "signature"),
    [
        ({}, (), "not signed"),
        (SIGNED, (), "signed"),
        (SIGNED, {4}, "signed"),
        (SIGNED, {3}, NOT_SIGNED),
        (SIGNED, None, "signed, not checked"),
        ({"kind": "unknown"}, (), ""),
    ],
)
def test_how_sure_it_is_who_did_it(parts, forged, signature):
    assert event_view(event(**{"kind": "stopped", **parts}), forged).signature == signature


def test_an_event_with_gates_on_lines():
    gates = GateReport(results=(GateResult(gate="spread", verdict="refused", detail="too far"),))
    lines = event_lines(event("promoted", alias="p", release=2, reason="so", gates=gates, overridden=True))
    assert lines.splitlines() == [
        "3  2026-01-02T03:04:05Z  ann (not signed)  promoted, p: release none -> 2",
        "    reason: so",
        "    gate spread: refused: too far",
        "    GATES OVERRIDDEN",
    ]


def test_a_release_says_who_overrode_its_gates():
    release = Release(7, "demo", (Version("demo", 1, "d", Subgroup(), WHEN),))
    assert release_line("p", release) == "p: release 7, versions 1 (global)"
    overridden = event("promoted", reason="board", overridden=True)
    said = release_line("p", release, overridden).splitlines()[1]
    assert said == "  GATES OVERRIDDEN by ann at 2026-01-02T03:04:05Z: board"


def test_lists_have_a_line_for_each_and_no_empty_columns():
    version = Version("demo", 1, "d", Subgroup(), WHEN)
    header, line = version_table([version], tags=[""], state=["new"]).splitlines()
    assert (header.split()[-1], line.split()[-1]) == ("state", "new")
    assert "tags" not in header
    keys = [
        ApiKey("a", "ward", "", WHEN, None),
        ApiKey("b", "ward", "", WHEN, WHEN, expires=WHEN),
        ApiKey("c", "ward", "", WHEN, None, expires=WHEN, per_minute=5, replaces="a"),
        ApiKey("d", "ward", "", WHEN, None, expires=datetime.now(UTC) + timedelta(days=1)),
    ]
    states = [line.split("Z", 1)[1].split()[0] for line in key_table(keys).splitlines()[1:]]
    assert states == ["valid", "revoked", "expired", "valid"]
    people = [
        Person("ann", "f1", "", ("operator",), WHEN),
        Person("ben", "f2", "", ("approver",), WHEN, WHEN),
    ]
    first, second = people_table(people).splitlines()[1:]
    assert (first.split()[3:], second.split()[3]) == (["valid", "f1"], "revoked")

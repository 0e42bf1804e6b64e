"""Four eyes that are two: whoever may use the registry says to be several people.

The operating system's word for who somebody is, is an environment variable. Each attack is shown to succeed
where nobody has a key, or against a registry that takes the name for the person.
"""

import base64
import subprocess
import sys
from datetime import UTC, datetime

import pytest

pytest.importorskip("cryptography", reason="signing needs the extra sign")

from registry.database import changes
from registry.database.connection import reading, writing
from registry.errors import ApprovalsMissing, GateRefusal, PersonRefused
from registry.gates import GateSet
from registry.gates.approval import ApprovalsGate
from registry.gates.fairness import SpreadGate
from registry.people import person_issues, signature_issue

MODEL = "skin-lesion"
TWO = GateSet(gates=(ApprovalsGate(people=2),))


def as_somebody(places, name, *arguments):
    """The command, by somebody who says to be called so."""
    command = [
        sys.executable,
        "-m",
        "registry.cli.app",
        "--url",
        places.url,
        "--store",
        str(places.store),
        *arguments,
    ]
    environment = {"LOGNAME": name, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.sqlite
def test_one_who_says_to_be_two_approves_nothing(places, registry, person, bundle):
    registry.add([bundle(seed=1)])
    for name in ("anna", "ben"):
        assert as_somebody(places, name, "approve", MODEL, "1", "--to", "production").returncode == 1
    with pytest.raises(ApprovalsMissing, match="the registry knows none whose approval counts"):
        registry.set_gates(TWO, reason="two pairs of eyes")
    for name in ("dora", "emil"):
        olga = person("olga")
        person(name, "approver")
    olga.set_gates(TWO, reason="two pairs of eyes")
    for name in ("anna", "ben"):
        assert as_somebody(places, name, "approve", MODEL, "1", "--to", "production").returncode == 1
    with pytest.raises(GateRefusal, match="approved by no other person"):
        olga.promote(MODEL, [1], to="production")
    assert registry.release(MODEL, "production") is None


def test_two_who_have_keys_do(registry, person, bundle):
    olga = person("olga")
    olga.add([bundle(seed=1)])
    for name in ("anna", "ben"):
        person(name, "approver").approve(MODEL, [1], to="production")
    olga.set_gates(TWO, reason="two pairs of eyes")
    event = olga.promote(MODEL, [1], to="production")
    assert event.signed_with is not None
    assert (event.actor, event.overridden) == ("olga", False)
    assert registry.verify() == ()


@pytest.mark.parametrize("role", ["uploader", "approver"])
def test_what_takes_an_operator_is_done_by_no_other(registry, person, bundle, role):
    person("olga").add([bundle(seed=1)])
    for who in (registry, person("eve", role)):
        for act in (
            lambda who=who: who.promote(MODEL, [1], to="production", override_gates=True, reason="now"),
            lambda who=who: who.set_gates(GateSet(gates=(SpreadGate(limit=1.0),)), reason="loose"),
            lambda who=who: who.revoke_person("olga"),
        ):
            with pytest.raises(PersonRefused, match=r"this is for (an )?operator"):
                act()
    assert registry.release(MODEL, "production") is None
    assert registry.verify() == ()


def test_a_key_that_was_revoked_or_is_of_nobody_does_nothing(registry, person, key, bundle):
    olga = person("olga")
    olga.add([bundle(seed=1)])
    anna = person("anna", "approver")
    olga.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="two eyes")
    anna.approve(MODEL, [1], to="production")
    olga.revoke_person("anna", reason="her laptop was stolen")
    with pytest.raises(PersonRefused, match=r"the key .* of anna was revoked"):
        anna.approve(MODEL, [1], to="production")
    with pytest.raises(GateRefusal, match="approved by no other person"):
        olga.promote(MODEL, [1], to="production")
    with pytest.raises(PersonRefused, match="is of nobody whom the registry knows"):
        registry.signed_by(key("mallory")).promote(MODEL, [1], to="production")
    assert registry.verify() == ()


def test_the_last_operator_stays_and_the_first_person_is_one(registry, person, key, tmp_path):
    key("anna")
    with pytest.raises(PersonRefused, match="the first must be an operator"):
        registry.add_person("anna", tmp_path / "anna.pub", roles=["approver"])
    olga = person("olga")
    with pytest.raises(PersonRefused, match="the last operator"):
        olga.revoke_person("olga")
    with pytest.raises(PersonRefused, match="nobody has signed it"):
        registry.add_person("anna", tmp_path / "anna.pub", roles=["operator"])
    assert [one.name for one in registry.people()] == ["olga"]


def test_only_the_keys_that_a_gate_names_count(registry, person, key, bundle):
    olga = person("olga")
    olga.add([bundle(seed=1)])
    person("anna", "approver").approve(MODEL, [1], to="production")
    ben = person("ben", "approver")
    gate = ApprovalsGate(people=1, keys=(key("ben").fingerprint,))
    olga.set_gates(GateSet(gates=(gate,)), reason="the board's own")
    with pytest.raises(GateRefusal, match="that of anna does not count here"):
        olga.promote(MODEL, [1], to="production")
    ben.approve(MODEL, [1], to="production")
    assert olga.promote(MODEL, [1], to="production") is not None


def test_an_event_that_somebody_else_wrote_in_her_name_is_found_and_counts_for_nothing(
    registry, person, places, bundle
):
    """Mallory may do anything in the database, and has no key."""
    olga = person("olga")
    olga.add([bundle(seed=1)])
    anna = person("anna", "approver")
    olga.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="two eyes")
    anna.approve(MODEL, [1], to="staging")
    forge(registry, lambda facts: {**facts, "alias": "production"})
    with pytest.raises(GateRefusal):
        olga.promote(MODEL, [1], to="production")
    assert any("approved:" in issue.text and "anna" in issue.text for issue in registry.verify())


def test_an_approval_from_before_the_alias_moved_counts_nowhere_again(registry, person, bundle):
    """Mallory copies Anna's approval of before behind the rollback of what she approved."""
    olga = person("olga")
    olga.add([bundle(seed=1), bundle(seed=2)])
    olga.promote(MODEL, [1], to="production", override_gates=True, reason="now")
    anna = person("anna", "approver")
    olga.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="two eyes")
    anna.approve(MODEL, [2], to="production")
    approval = registry.audit()[-1]
    olga.promote(MODEL, [2], to="production")
    olga.rollback(MODEL, alias="production", reason="complaints")
    forge(registry, dict, of=approval)
    with pytest.raises(GateRefusal):
        olga.promote(MODEL, [2], to="production")
    assert any("it was signed after event" in issue.text for issue in registry.verify())


def forge(registry, change, of=None):
    """Writes an event again, by default the last, changed, at the end of a chain that fits."""
    last = of or registry.audit()[-1]
    details = dict(last["details"])
    changed = change({"alias": last["alias"], "details": details})

    class Told:
        """Somebody whose signature is that of before."""

        fingerprint = details["signed"]["key"]

        def time(self):
            return datetime.fromisoformat(details["signed"]["time"])

        def sign(self, statement):
            return base64.b64decode(details["signed"]["signature"])

    rest = {name: fact for name, fact in details.items() if name != "signed"}
    with writing(registry._engine) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "newest_about", lambda *_: details["signed"]["after"])
        changes.insert_event(
            connection,
            last["kind"],
            last["model"],
            changes.AuditContext("anna", last["reason"], signatory=Told()),
            versions=last["versions"],
            alias=changed["alias"],
            details=rest,
        )


class Replays:
    """A signatory without a key: signs with what somebody signed before."""

    def __init__(self, fingerprint, signature):
        self.fingerprint, self.signature = fingerprint, signature

    def time(self):
        return datetime.now(UTC)

    def sign(self, statement):
        return self.signature


def test_a_signature_is_good_once(registry, person, key, bundle):
    """What was signed for a promotion is no permission to promote again after somebody went back."""
    olga = person("olga")
    olga.add([bundle(seed=1), bundle(seed=2)])
    olga.set_gates(GateSet(gates=(SpreadGate(limit=1.0),)), reason="loose")
    olga.promote(MODEL, [1], to="production")
    signed = olga.promote(MODEL, [2], to="production", reason="better")
    olga.rollback(MODEL, alias="production", reason="complaints")
    assert registry.verify() == ()
    again = Replays(key("olga").fingerprint, base64.b64decode(signed.details["signed"]["signature"]))
    registry.signed_by(again).promote(MODEL, [2], to="production", reason="better")
    assert any("sign" in str(issue) for issue in registry.verify())


def test_what_makes_several_events_is_signed_event_by_event(registry, person, bundle):
    olga = person("olga")
    olga.add([bundle(seed=1), bundle(seed=2)])
    for number in (1, 2):
        olga.promote(MODEL, [number], to="production", override_gates=True, reason="now")
    done = olga.withdraw(MODEL, [2], reason="harmful")
    assert [event.kind for event in (done.event, *done.moved)] == ["withdrawn", "rolled-back"]
    assert all(event.signed_with for event in (done.event, *done.moved))
    assert registry.verify() == ()


def test_a_person_put_into_the_table_is_found(registry, person, places, bundle, key, tmp_path):
    person("olga").add([bundle(seed=1)])
    eve = key("eve")
    text = (tmp_path / "eve.pub").read_text()
    places.tamper(
        "INSERT INTO people (id, name, fingerprint, public_key, roles, created) VALUES "
        f"(99, 'eve', '{eve.fingerprint}', '{text}', '[\"operator\"]', '2026-01-01T00:00:00.000000+00:00')"
    )
    registry.signed_by(eve).promote(MODEL, [1], to="production", override_gates=True, reason="mine")
    said = "\n".join(f"{one.about}: {one.text}" for one in registry.verify())
    assert "the person eve" in said
    assert "a key of nobody whom the registry knew then" in said


def test_what_is_signed_is_all_that_is_told(registry, person):
    """Another kind, alias, reason, version or gate set breaks the signature of an event."""
    olga = person("olga")
    olga.set_gates(GateSet(gates=(SpreadGate(limit=0.5),)), reason="a reason")
    facts, (who,) = registry.audit()[-1], registry.people()
    from registry.database.connection import reading
    from registry.database.tables import registry_id

    with reading(registry._engine) as connection:
        own = registry_id(connection)
    assert len(own) == 32
    assert signature_issue(facts, own, who) is None
    assert signature_issue(facts, "0" * 32, who) is not None
    details = facts["details"]
    for changed in (
        {"kind": "promoted"},
        {"alias": "production"},
        {"reason": "another"},
        {"versions": [1]},
        {"overridden": True},
        {"model": "other"},
        {"details": {**details, "after": {**details["after"], "number": 7}}},
        {"details": {**details, "signed": {**details["signed"], "time": "2026-01-01T00:00:00.000000+00:00"}}},
        {"details": {**details, "signed": {**details["signed"], "signature": "AAAA"}}},
        {"details": {**details, "signed": {**details["signed"], "signature": "no base64"}}},
    ):
        assert signature_issue({**facts, **changed}, own, who) is not None, changed


def test_a_promotion_is_signed_with_what_gates_said_and_what_it_replaces(registry, person, bundle):
    """Mallory, who may do anything in the database, has a gate that was not judged pass, or another run."""
    olga = person("olga")
    olga.add([bundle(seed=1), bundle(seed=2)])
    for number in (1, 2):
        olga.promote(MODEL, [number], to="production", override_gates=True, reason="now")
    events = registry.audit()
    with reading(registry._engine) as connection:
        assert list(person_issues(connection, events)) == []
        for change in (
            {"before_id": None},
            {"gates": {**events[-1]["gates"], "results": []}},
            {"gates": {**events[-1]["gates"], "set_number": 7}},
            {"gates": None},
        ):
            (issue,) = person_issues(connection, [*events[:-1], {**events[-1], **change}])
            assert issue.about == f"event {events[-1]['id']}", change


@pytest.mark.parametrize("name", ["olga ", "  olga", "OLGA", "olga"])
def test_nobody_is_called_like_somebody_else(registry, person, key, tmp_path, name):
    """Approvals name people: two spaces would make two of one."""
    olga = person("olga")
    key("eve")
    with pytest.raises(PersonRefused, match="there is a person called olga already"):
        olga.add_person(name, tmp_path / "eve.pub", roles=["approver"])


def test_letters_that_look_alike_are_no_other_name(registry, person, key, tmp_path):
    olga = person("olga")
    for name in ("copa", "eve"):
        key(name)
    olga.add_person("copa", tmp_path / "copa.pub", roles=["approver"])
    with pytest.raises(PersonRefused, match="there is a person called copa already"):
        olga.add_person("сора", tmp_path / "eve.pub", roles=["approver"])


def test_what_nobody_may_add_is_not_put_into_the_store(registry, person, bundle):
    """Whoever has no key would fill the store, and every attempt would be probed."""
    person("olga").add([bundle(seed=1)])
    before = list(registry._store.files())
    for who in (registry, person("anna", "approver")):
        with pytest.raises(PersonRefused):
            who.add([bundle(seed=2)])
    assert list(registry._store.files()) == before
    registry.add([bundle(seed=1)])  # puts a store right, and is no addition


def test_history_does_not_take_an_events_word_for_its_signature(registry, person, places, command, bundle):
    person("olga").add([bundle(seed=1)])
    with writing(registry._engine) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "acting_person", lambda *_: None)
        (olga,) = registry.people()
        signed = {"key": olga.fingerprint, "after": 0, "time": "", "signature": ""}
        details = {"note": "fine", "signed": signed}
        changes.insert_event(
            connection, "noted", MODEL, changes.AuditContext("olga"), versions=[1], details=details
        )
    *_, added, noted, _ = command("history", MODEL).out.splitlines()
    assert "olga (signed)  added version 1" in added
    assert "olga (NOT SIGNED, though it says so)  noted version 1" in noted

"""Everything that can be done to a registry, once: after it the tables hold what the events say."""

from datetime import UTC, date, datetime, timedelta
from typing import get_args

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from registry.alarms.look import Look
from registry.gates import GateSet, SpreadGate
from registry.gates.approvals import ApprovalsGate
from registry.outcomes.kept_alarms import FoundAlarm, new_id
from registry.outcomes.store import OutcomeStore
from registry.records import EventKind
from registry.registry import Registry
from registry.releases.canary import Share
from registry.signing.pem import Signer, trust_in_signer

MODEL = "skin-lesion"


@pytest.fixture
def signer():
    return Signer(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def vendor(tmp_path):
    """A registry elsewhere."""
    place = tmp_path / "vendor"
    with Registry.open(f"sqlite:///{place / 'registry.db'}", str(place / "store"), actor="vendor") as opened:
        yield opened


def test_after_all_that_can_be_done_nothing_disagrees(person, vendor, signer, bundle, graph, dark, tmp_path):
    registry = person("olga", "operator", "uploader")
    trust = trust_in_signer(signer)
    bundles = [bundle(seed=1), bundle(dark, seed=2), bundle(seed=3, graph=graph(name="3"))]
    registry.add(bundles[:2])
    registry.sign(MODEL, [1, 2], signer)
    anna = person("anna", "approver")
    registry.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="two pairs of eyes")
    loose = GateSet(gates=(SpreadGate(limit=0.2),))
    anna.approve_gates(loose, model=MODEL)
    registry.set_gates(loose, reason="a try", model=MODEL)
    registry.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="not here", model=MODEL)
    anna.approve(MODEL, [1, 2], to="production", reason="seen")
    registry.promote(MODEL, [1, 2], to="production")
    file = tmp_path / "release.dermfed"
    registry.export_release(MODEL, "production", file)

    vendor.add([bundles[2]])
    vendor.import_release(file, trust=trust)
    assert vendor.verify(trust) == ()
    vendor.promote(MODEL, [1], to="production", override_gates=True, reason="without figures")
    vendor.sign(MODEL, [1], signer)
    vendor.export_release(MODEL, "production", file)

    imported = registry.import_release(file, trust=trust)
    assert ([one.number for one in imported.new], len(imported.signatures)) == ([3], 1)
    anna.approve(MODEL, [3], to="production", override_gates=True)
    registry.promote(MODEL, [3], to="production", override_gates=True, reason="of the vendor")
    registry.rollback(MODEL, alias="production")
    anna.approve(MODEL, [3], to="trial", override_gates=True)
    registry.promote(MODEL, [3], to="trial", override_gates=True, reason="of the vendor")
    trial = {"to": "production", "override_gates": True, "reason": "one in twenty"}
    anna.approve(MODEL, [3], to="production", override_gates=True)
    registry.promote(MODEL, [3], **trial, share=Share(0.05))
    registry.promote(MODEL, [3], **trial, share=Share(0.1))
    registry.end_canary(MODEL, alias="production", reason="seen enough")
    anna.approve(MODEL, [3], to="production", override_gates=True)
    registry.promote(MODEL, [3], **trial, share=Share(0.1))
    registry.stop(MODEL, alias="production", reason="the ward called")
    looser = GateSet(gates=(SpreadGate(limit=0.3),))
    anna.approve_gates(looser, model=MODEL, alias="trial")
    registry.set_gates(looser, reason="a try", model=MODEL, alias="trial")
    registry.withdraw(MODEL, [3], reason="misses melanoma")
    registry.rollback(MODEL, alias="production")
    registry.tag(MODEL, 1, ["reviewed", "old"])
    registry.untag(MODEL, 1, ["old"])
    registry.note(MODEL, 1, "seen by the ward")
    registry.revoke_person("anna", reason="left the ward")
    registry.sign_head()
    key, _ = registry.create_key("ward")
    office, _ = registry.create_key("office", scopes=["read"], expires=timedelta(days=30), per_minute=5)
    registry.rotate_key(office.id)
    registry.revoke_key(key.id)
    with OutcomeStore.open(f"sqlite:///{tmp_path / 'outcomes.db'}") as outcomes:
        registry.name_outcomes(MODEL, outcomes)
        found = FoundAlarm(
            new_id(), 1, "dark", "coverage", 0.9, 30.0, 20.0, 9, date(2026, 5, 4), datetime.now(UTC)
        )
        registry.tell_alarms(MODEL, Look(outcomes.identity(), (), (), (found,)))
    registry.close_alarm(MODEL, 1, reason="looked at")
    registry.allow_withdraw(MODEL, "production", allowed=True)
    registry.allow_withdraw(MODEL, "production", allowed=False)
    nobodys = registry._store.put(b"nobody's")
    collection = registry.collect(older_than=timedelta(0))
    assert [one.digest for one in collection.files] == [nobodys]

    assert {event["kind"] for event in registry.audit()} == set(get_args(EventKind))
    assert registry.verify(trust) == ()
    assert [registry.bundle(version) for version in registry.versions()] == bundles

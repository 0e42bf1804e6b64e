"""The gate `signature` against signatures in a registry: whose word is taken, and what is checked."""

import os

import pytest

from registry.envelope import TRUSTED_KEYS
from registry.gates import GateSet
from registry.gates.approval import SignatureGate
from registry.signing_keys import KeySignatory, Signer

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def make_key(key, write):
    """Makes a key: who signs with it, and the file of its public half."""

    def make(name):
        made = key()
        return Signer(made), write(made.public_key(), f"{name}.pub")

    return make


def verdicts(registry):
    (result,) = registry.judge(MODEL, [1, 2], to="production").results
    return {finding.subgroup: finding.verdict for finding in result.findings}


def test_every_version_of_the_release_needs_one(registry, bundle, dark, make_key, monkeypatch):
    registry.add([bundle(), bundle(dark)])
    anna, public = make_key("anna")
    monkeypatch.setenv(TRUSTED_KEYS, str(public))
    mallory, _ = make_key("mallory")
    registry.set_gates(GateSet(gates=(SignatureGate(identities=(anna.identity,)),)), reason="sign")
    registry.sign(MODEL, [1, 2], mallory)
    assert verdicts(registry) == {"global": "refused", "dark": "refused"}
    registry.sign(MODEL, [1], anna)
    assert verdicts(registry) == {"global": "passed", "dark": "refused"}
    registry.sign(MODEL, [2], anna)
    assert registry.promote(MODEL, [1, 2], to="production") is not None


def test_who_is_nobody_signs_nothing(registry, bundle, make_key, certificate):
    """A certificate that somebody issued to themselves in the board's name, and a key that nobody knows."""
    registry.add([bundle()])
    anna, public = make_key("anna")
    board = Signer(anna.key, certificate(anna.key, "The Board"))
    names = (anna.identity, board.identity)
    registry.set_gates(GateSet(gates=(SignatureGate(identities=names),)), reason="sign")
    registry.sign(MODEL, [1], anna)
    registry.sign(MODEL, [1], board)
    (result,) = registry.judge(MODEL, [1], to="production").results
    assert result.verdict == "refused"
    assert "not signed with a key that is trusted here" in result.detail
    registry.add_person("anna", public, roles=["operator", "uploader"])
    (result,) = registry.judge(MODEL, [1], to="production").results
    assert result.verdict == "passed"
    assert result.findings[0].note == f"signed by {anna.identity}"
    by_board = KeySignatory(anna)
    registry.sign(MODEL, [1], Signer(anna.key))  # nothing new, and no event
    assert [event.signed_with for event in registry.history(MODEL) if event.kind == "signed"] == [None, None]
    registry.signed_by(by_board).add([bundle(seed=5)])
    registry.sign(MODEL, [2], anna)
    assert registry.history(MODEL)[-1].signed_with == by_board.fingerprint
    assert registry.history(MODEL)[-1].actor == "anna"
    registry.signed_by(KeySignatory(anna)).set_gates(
        GateSet(gates=(SignatureGate(identities=(board.identity,)),)), reason="the board alone"
    )
    (result,) = registry.judge(MODEL, [1], to="production").results
    assert result.verdict == "refused"  # Anna's key is known, and she is not the board


def test_where_keys_are_trusted_only_a_signature_that_holds_counts(
    registry, bundle, dark, make_key, places, monkeypatch
):
    registry.add([bundle(), bundle(dark)])
    anna, anna_public = make_key("anna")
    mallory, mallory_public = make_key("mallory")
    registry.set_gates(GateSet(gates=(SignatureGate(identities=(anna.identity,)),)), reason="sign")
    registry.sign(MODEL, [1], anna)
    registry.sign(MODEL, [2], mallory)
    places.tamper(f"UPDATE signatures SET identity = '{anna.identity}'")  # Mallory says to be Anna
    assert verdicts(registry) == {"global": "refused", "dark": "refused"}  # nobody proves either
    monkeypatch.setenv(TRUSTED_KEYS, os.pathsep.join(map(str, (anna_public, mallory_public))))
    assert verdicts(registry) == {"global": "passed", "dark": "refused"}
    monkeypatch.setenv(TRUSTED_KEYS, str(mallory_public))
    assert verdicts(registry) == {"global": "refused", "dark": "refused"}

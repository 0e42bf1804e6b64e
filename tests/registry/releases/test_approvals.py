"""Approvals: who stands for which release, and for how long."""

import pytest

from registry.errors import GateRefusal, NotFound, NothingToApprove, ReleaseRefused
from registry.gates import GateSet
from registry.gates.approval import ApprovalsGate
from registry.releases import promote

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def filled(person, bundle, tested, dark):
    """Versions 1 and 2 for everybody, 3 and 4 for dark; two must approve; Olga's hands are on it."""
    registry = person("olga", "operator", "uploader", "approver")
    registry.add([bundle(seed=1), bundle(seed=2), bundle(dark, seed=3), bundle(dark, seed=4)])
    for name in ("anna", "ben", "chris"):
        person(name, "approver", "operator")
    registry.set_gates(GateSet(gates=(ApprovalsGate(people=2),)), reason="two pairs of eyes")
    return registry


@pytest.fixture
def approve(person):
    """Approves as somebody."""

    def by(name, numbers, to="production"):
        return person(name).approve(MODEL, numbers, to=to, reason="  seen ")

    return by


@pytest.fixture
def override(filled, person):
    """Promotes over the gates, as Anna and Ben have approved."""

    def promoted(numbers, to="production"):
        for name in ("anna", "ben"):
            person(name).approve(MODEL, numbers, to=to, override_gates=True)
        return filled.promote(MODEL, numbers, to=to, override_gates=True, reason="a test")

    return promoted


def counted(registry, numbers, to="production"):
    return registry.judge(MODEL, numbers, to=to).results[0].value


def test_so_many_others_make_a_release(filled, approve):
    with pytest.raises(
        GateRefusal,
        match=r"by no other person; at least 2 .* `dermfed-registry approve skin-lesion 1 3 --to prod",
    ):
        filled.promote(MODEL, [1, 3], to="production")
    approve("anna", [1, 3])
    with pytest.raises(GateRefusal, match="approved by anna"):
        filled.promote(MODEL, [1, 3], to="production")
    approve("ben", [3, 1])  # in whatever order
    event = filled.promote(MODEL, [1, 3], to="production")
    assert not event.overridden
    assert "approved by anna, ben" in event.gates.results[0].detail
    assert filled.verify() == ()


def test_another_release_and_another_alias_are_not_approved(filled, approve):
    approve("anna", [1, 3])
    approve("ben", [1, 3])
    assert counted(filled, [1, 3]) == 2
    assert counted(filled, [1, 4]) == counted(filled, [1]) == counted(filled, [2, 3]) == 0
    assert counted(filled, [1, 3], to="staging") == 0


def test_the_promoter_does_not_count(filled, approve, person):
    approve("olga", [1])
    approve("anna", [1])
    with pytest.raises(GateRefusal, match="the approval of olga, who promotes, does not count"):
        filled.promote(MODEL, [1], to="production")
    assert person("chris").promote(MODEL, [1], to="production") is not None


def test_what_is_carried_over_is_approved_too(filled, approve, override):
    override([1, 3])
    approve("anna", [2])
    approve("ben", [2])
    assert counted(filled, [2]) == counted(filled, [2, 3]) == 2
    assert counted(filled, [2, 4]) == 0


def test_an_approval_holds_until_the_alias_moves(filled, approve, override):
    for person in ("anna", "ben"):
        approve(person, [1])
        approve(person, [2])
    override([1], to="staging")
    assert counted(filled, [2]) == 2
    filled.promote(MODEL, [1], to="production")
    assert counted(filled, [2]) == 0
    approve("anna", [2])
    approve("ben", [2])
    filled.promote(MODEL, [2], to="production")
    filled.rollback(MODEL, alias="production", reason="complaints")
    assert counted(filled, [2]) == 0
    with pytest.raises(GateRefusal, match="approved by no other person"):
        filled.promote(MODEL, [2], to="production")
    assert approve("anna", [2]).kind == "approved"


def test_what_runs_already_and_what_is_no_release_is_not_approved(filled, approve, override):
    override([1])
    before = filled.history(MODEL)
    with pytest.raises(NothingToApprove, match="production of skin-lesion points to version 1"):
        approve("anna", [1])
    with pytest.raises(ReleaseRefused, match="both for"):
        approve("anna", [1, 2])
    with pytest.raises(ReleaseRefused, match="no version for everybody"):
        approve("anna", [3], to="staging")
    with pytest.raises(NotFound, match="no version 9"):
        approve("anna", [9])
    assert filled.history(MODEL) == before


def test_an_alias_that_moved_while_somebody_looked_is_not_approved(filled, approve, override, monkeypatch):
    check = promote.check_integrity

    def interrupted(*given):
        monkeypatch.setattr(promote, "check_integrity", check)
        override([1])
        check(*given)

    monkeypatch.setattr(promote, "check_integrity", interrupted)
    with pytest.raises(NothingToApprove, match=r"has moved while version 2 .* approve anew"):
        approve("anna", [2])
    assert counted(filled, [2]) == 0


def test_approvals_that_are_spent_in_between_do_not_count(filled, approve, override, monkeypatch):
    """The alias moves there and back between a judgement and its release."""
    override([1])
    approve("anna", [2])
    approve("ben", [2])
    swap, tries = promote.swap, []

    def interrupted(*judged):
        tries.append(judged)
        monkeypatch.setattr(promote, "swap", swap)
        override([3])
        filled.rollback(MODEL, alias="production")
        return swap(*judged)

    monkeypatch.setattr(promote, "swap", interrupted)
    with pytest.raises(GateRefusal, match="approved by no other person"):
        filled.promote(MODEL, [2], to="production")
    assert len(tries) == 1

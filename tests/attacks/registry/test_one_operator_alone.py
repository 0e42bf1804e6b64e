"""Two people are two: one operator alone tries whatever would make a release answer that only she approves.

The gate set asks for one approval. Each way around it is refused, done with the guard off (the control), and
done with the approval of exactly this action by somebody else.
"""

import pytest

pytest.importorskip("cryptography", reason="signing needs the extra sign")

from registry import people
from registry.errors import ApprovalsMissing, GateRefusal, NothingToApprove, PersonRefused
from registry.gates import GateSet
from registry.gates.approval import ApprovalsGate
from registry.gates.fairness import SpreadGate
from registry.releases import gate_sets, promote
from registry.releases.rollout import Share

MODEL = "skin-lesion"
TO = {"to": "production"}
STRICT = GateSet(gates=(SpreadGate(limit=0.1), ApprovalsGate(people=1)))
LOOSE = GateSet(gates=(SpreadGate(limit=1.0),))
FEWER_FIGURES = GateSet(gates=(SpreadGate(limit=1.0), ApprovalsGate(people=1)))
PLACES = [(MODEL, "production"), (MODEL, None), (None, "production"), (None, None)]
"""Where a gate set may be, the narrowest first: of a model, under an alias, or of all."""


@pytest.fixture
def place(request):
    """Where the gate set is that asks for approvals."""
    return getattr(request, "param", (None, "production"))


@pytest.fixture
def olga(person, bundle, tested, dark, place):
    """Olga, an operator, alone at the registry: version 1 answers, and 2 is bad for dark skin."""
    olga = person("olga", "operator", "uploader", "approver")
    person("ben", "approver")
    olga.add([bundle(metrics=tested(light=0.9, dark=0.85)), bundle(dark, tested(dark=0.5))])
    olga.set_gates(STRICT, reason="two pairs of eyes", model=place[0], alias=place[1])
    person("ben").approve(MODEL, [1], **TO)
    olga.promote(MODEL, [1], **TO)
    return olga


@pytest.fixture
def unguarded(monkeypatch):
    """A registry that asks for approvals of releases alone."""

    def switch_off():
        for module in (promote, gate_sets, people):
            monkeypatch.setattr(module, "require_approved", lambda *_: {})

    return switch_off


def answering(registry):
    """The versions that answer anybody under production."""
    release, canary = registry.release(MODEL, "production"), registry.canaries(MODEL).get("production")
    found = [*release.versions, *(canary.release.versions if canary else ())]
    return sorted({one.number for one in found})


def override(olga, person, key):
    olga.promote(MODEL, [2], **TO, override_gates=True, reason="I say so")


def override_for_a_share(olga, person, key):
    olga.promote(MODEL, [2], **TO, override_gates=True, reason="I say so", share=Share(0.99))


def looser_set(olga, person, key):
    olga.set_gates(LOOSE, reason="I say so", alias="production")
    olga.promote(MODEL, [2], **TO)


def second_key_that_approves(olga, person, key):
    person("eve", "approver").approve(MODEL, [2], **TO, override_gates=True)
    override(olga, person, key)


def second_key_that_promotes(olga, person, key):
    olga.approve(MODEL, [2], **TO, override_gates=True)
    override(person("eve", "operator"), person, key)


def her_key_in_the_name_of_another(olga, person, key):
    olga.revoke_person("ben", reason="his laptop was stolen")
    olga.add_person("ben", key.file("eve"), roles=["approver"])
    olga.signed_by(key("eve")).approve(MODEL, [2], **TO, override_gates=True)
    override(olga, person, key)


ATTACKS = [
    override,
    override_for_a_share,
    looser_set,
    second_key_that_approves,
    second_key_that_promotes,
    her_key_in_the_name_of_another,
]


@pytest.fixture
def keys(key, tmp_path):
    """The keys of people, and the files of their public halves."""

    def file(name):
        key(name)
        return tmp_path / f"{name}.pub"

    key.file = file
    return key


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_operator_alone_makes_nothing_answer(olga, person, keys, attack):
    with pytest.raises(
        ApprovalsMissing, match=r"takes the approval of 1 person other than olga, since gate "
    ):
        attack(olga, person, keys)
    assert answering(olga) == [1]
    with pytest.raises(GateRefusal):
        olga.promote(MODEL, [2], **TO)
    assert olga.verify() == ()


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_the_guard_each_of_it_works(olga, person, keys, unguarded, attack):
    unguarded()
    attack(olga, person, keys)
    assert answering(olga) == [1, 2]


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("other", PLACES)
@pytest.mark.parametrize("guard", [True, False])
def test_no_other_set_takes_the_place_of_one_that_asks(olga, unguarded, place, other, guard):
    """Wherever the set is that asks, and wherever the other: the narrowest counts, of these the newest."""
    if not guard:
        unguarded()
    takes_its_place = PLACES.index(other) <= PLACES.index(place)
    if guard and takes_its_place:
        with pytest.raises(ApprovalsMissing):
            olga.set_gates(LOOSE, reason="I say so", model=other[0], alias=other[1])
    else:
        olga.set_gates(LOOSE, reason="I say so", model=other[0], alias=other[1])
    if takes_its_place and not guard:
        olga.promote(MODEL, [2], **TO)
        assert answering(olga) == [1, 2]
    else:
        with pytest.raises(GateRefusal):
            olga.promote(MODEL, [2], **TO)
        assert answering(olga) == [1]


@pytest.mark.parametrize("gates", [LOOSE, FEWER_FIGURES, GateSet(gates=(ApprovalsGate(people=1),))])
def test_any_other_set_takes_approvals(olga, gates):
    with pytest.raises(ApprovalsMissing):
        olga.set_gates(gates, reason="I say so", alias="production")
    assert olga.gates(MODEL, alias="production").gates == STRICT
    assert olga.set_gates(STRICT, reason="again", alias="production") is None


def test_with_the_approval_of_another_it_is_done(olga, person, keys):
    ben = person("ben")
    ben.approve(MODEL, [2], **TO, override_gates=True, reason="for a week")
    done = olga.promote(MODEL, [2], **TO, override_gates=True, reason="until March")
    assert (done.overridden, done.details["approved_by"]) == (True, ["ben"])
    assert answering(olga) == [1, 2]
    ben.approve_person("carla", keys.file("carla"), roles=["approver"])
    assert olga.add_person("carla", keys.file("carla"), roles=["approver"]).name == "carla"
    ben.approve_gates(FEWER_FIGURES, alias="production")
    changed = olga.set_gates(FEWER_FIGURES, reason="the board", alias="production")
    assert changed.details["approved_by"] == ["ben"]
    assert olga.verify() == ()


def test_only_exactly_this_override_is_approved(olga, person, bundle, dark, tested):
    ben = person("ben")
    olga.add([bundle(dark, tested(dark=0.4))])
    ben.approve(MODEL, [2], **TO)  # the release, if gates let it through
    with pytest.raises(ApprovalsMissing):
        override(olga, person, None)
    olga.approve(MODEL, [2], **TO, override_gates=True)  # her own
    with pytest.raises(ApprovalsMissing):
        override(olga, person, None)
    ben.approve(MODEL, [3], **TO, override_gates=True)  # another version
    ben.approve(MODEL, [1, 2], to="staging", override_gates=True)  # another alias
    with pytest.raises(ApprovalsMissing):
        override(olga, person, None)
    ben.approve(MODEL, [2], **TO, override_gates=True)
    with pytest.raises(NothingToApprove, match="ben has approved overriding the gates for version 2"):
        ben.approve(MODEL, [2], **TO, override_gates=True)
    override(olga, person, None)
    olga.rollback(MODEL, alias="production", reason="complaints")
    with pytest.raises(ApprovalsMissing):  # it is spent
        override(olga, person, None)


def test_an_approval_of_an_override_is_none_of_the_release(olga, person):
    loose = GateSet(gates=(ApprovalsGate(people=1),))
    person("ben").approve_gates(loose, alias="production")
    olga.set_gates(loose, reason="the board", alias="production")
    person("ben").approve(MODEL, [2], **TO, override_gates=True)
    with pytest.raises(GateRefusal, match="approved by no other person"):
        olga.promote(MODEL, [2], **TO)


def test_only_exactly_this_change_of_the_gates_is_approved_and_once(olga, person):
    ben = person("ben")
    ben.approve_gates(FEWER_FIGURES, alias="production")  # another set
    ben.approve_gates(LOOSE)  # elsewhere
    olga.approve_gates(LOOSE, alias="production")  # her own
    with pytest.raises(ApprovalsMissing):
        olga.set_gates(LOOSE, reason="why", alias="production")
    ben.approve_gates(LOOSE, alias="production")
    with pytest.raises(NothingToApprove, match="ben has approved this gate set for all models under prod"):
        ben.approve_gates(LOOSE, alias="production")
    olga.set_gates(LOOSE, reason="why", alias="production")
    with pytest.raises(NothingToApprove, match="asks what is asked already"):
        ben.approve_gates(LOOSE, alias="production")
    olga.set_gates(STRICT, reason="as ever", alias="production")
    with pytest.raises(ApprovalsMissing):  # it was of another set in its place
        olga.set_gates(LOOSE, reason="why", alias="production")


def test_only_exactly_this_person_is_approved(olga, person, keys):
    ben = person("ben")
    ben.approve_person("carla", keys.file("carla"), roles=["uploader"])
    for name, file, role in (
        ("carla", keys.file("eve"), "uploader"),
        ("carla", keys.file("carla"), "approver"),
        ("eve", keys.file("carla"), "uploader"),
    ):
        with pytest.raises(ApprovalsMissing):
            olga.add_person(name, file, roles=[role])
    with pytest.raises(NothingToApprove, match="ben has approved adding carla already"):
        ben.approve_person("carla", keys.file("carla"), roles=["uploader"])
    olga.add_person("carla", keys.file("carla"), roles=["uploader"])
    with pytest.raises(PersonRefused, match="is known as that of carla"):
        ben.approve_person("carla", keys.file("carla"), roles=["uploader"])


def test_only_an_approver_approves_and_only_an_operator_does(olga, person, registry, keys):
    acts = [
        lambda who: who.approve_gates(LOOSE, alias="production"),
        lambda who: who.approve_person("carla", keys.file("carla"), roles=["uploader"]),
        lambda who: who.approve(MODEL, [2], **TO, override_gates=True),
    ]
    person("ben").approve_person("dora", keys.file("dora"), roles=["operator"])
    olga.add_person("dora", keys.file("dora"), roles=["operator"])
    for act in acts:
        for who in (registry, olga.signed_by(keys("dora"))):
            with pytest.raises(PersonRefused, match=r"this is for (an )?approver"):
                act(who)
        act(person("ben"))
    with pytest.raises(PersonRefused, match="this is for operators"):
        person("ben").set_gates(LOOSE, reason="why", alias="production")


def test_a_key_that_was_revoked_approves_nothing_any_more(olga, person):
    person("ben").approve_gates(LOOSE, alias="production")
    olga.revoke_person("ben", reason="his laptop was stolen")
    with pytest.raises(ApprovalsMissing):
        olga.set_gates(LOOSE, reason="why", alias="production")


def test_two_approvals_are_two_people(olga, person, keys):
    two = GateSet(gates=(ApprovalsGate(people=2),))
    with pytest.raises(ApprovalsMissing, match=r"knows 1 \(ben\) whose approval counts"):
        olga.set_gates(two, reason="the board", model=MODEL, alias="staging")
    person("ben").approve_person("carla", keys.file("carla"), roles=["approver"])
    carla = olga.add_person("carla", keys.file("carla"), roles=["approver"])
    olga.set_gates(two, reason="the board", model=MODEL, alias="staging")
    person("ben").approve_gates(LOOSE, model=MODEL, alias="staging")
    with pytest.raises(ApprovalsMissing, match=r"the approval of 2 people other than olga.*has that of ben"):
        olga.set_gates(LOOSE, reason="why", model=MODEL, alias="staging")
    olga.signed_by(keys(carla.name)).approve_gates(LOOSE, model=MODEL, alias="staging")
    assert olga.set_gates(LOOSE, reason="why", model=MODEL, alias="staging") is not None


def test_what_nobody_could_approve_is_not_put_in_force(registry, person, key):
    """Else no further person could ever be added, nor the set be changed."""
    one = GateSet(gates=(ApprovalsGate(people=1),))
    with pytest.raises(ApprovalsMissing, match="the registry knows none whose approval counts"):
        registry.set_gates(one, reason="nobody is known")
    olga = person("olga", "operator", "approver")
    with pytest.raises(ApprovalsMissing, match="other than olga"):
        olga.set_gates(one, reason="she alone is known")
    person("ben", "approver")
    other = GateSet(gates=(ApprovalsGate(people=1, keys=(key("eve").fingerprint,)),))
    with pytest.raises(ApprovalsMissing):
        olga.set_gates(other, reason="a key that nobody has")
    assert olga.set_gates(one, reason="two are known") is not None


def test_going_back_and_stopping_take_nobody_else(olga, person):
    """In an emergency one operator is enough, and what answers then has answered before."""
    person("ben").approve(MODEL, [2], **TO, override_gates=True)
    override(olga, person, None)
    olga.stop(MODEL, alias="production", reason="it harms")
    olga.rollback(MODEL, alias="production")
    assert answering(olga) == [1, 2]
    olga.rollback(MODEL, alias="production")
    assert answering(olga) == [1]
    olga.revoke_person("ben", reason="his laptop was stolen")


def test_what_was_set_for_other_models_and_aliases_takes_no_approvals(olga):
    assert olga.set_gates(LOOSE, reason="a try", alias="staging") is not None
    assert olga.set_gates(LOOSE, reason="all others") is not None
    assert olga.promote(MODEL, [1, 2], to="staging") is not None
    with pytest.raises(GateRefusal):
        olga.promote(MODEL, [2], **TO)

"""Canaries: what starts one, what ends one, what history tells, and what is refused."""

import threading

import pytest

from registry.database.connection import reading
from registry.database.queries import running_canary
from registry.errors import (
    AliasMoved,
    GateRefusal,
    InvalidName,
    NotFound,
    NothingToRollBack,
    PersonRefused,
    ReleaseRefused,
    VersionWithdrawn,
)
from registry.gates import GateSet, SpreadGate
from registry.gates.approval import ApprovalsGate
from registry.releases import promote
from registry.releases.rollout import Share
from registry.views.records import event_lines
from tests.registry.conftest import draw_bundle, figures, tones_of

MODEL = "skin-lesion"
TO = {"to": "production"}
FEW = Share(0.05)


def release(registry):
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.2),)), reason="a test")
    dark, even = tones_of("dark", "4", "5", "6"), (None, figures(light=0.9, dark=0.9))
    given = [even, (dark, figures(dark=0.85)), even, even, (dark, figures(dark=0.5))]
    registry.add(draw_bundle(*one, seed=seed) for seed, one in enumerate(given, 1))
    registry.promote(MODEL, [1, 2], **TO)


@pytest.fixture
def released(filled):
    """Production is 1 for everybody and 2 for dark; 3 and 4 are for everybody, 5 is a bad one for dark."""
    return filled(release)


def canary(registry, alias="production"):
    return registry.canaries(MODEL).get(alias)


def numbers(release):
    return [one.number for one in release.versions]


def test_a_canary_runs_beside_the_alias_which_stays(released):
    before = released.release(MODEL, "production")
    event = released.promote(MODEL, [3], **TO, share=FEW, reason="one in twenty")
    assert (event.kind, event.alias, event.versions, event.before) == (
        "canary-started", "production", (3,), before.id,
    )  # fmt: skip
    assert event.gates is not None
    assert not event.overridden
    assert released.release(MODEL, "production") == before
    one = canary(released)
    assert (one.share, one.subgroup, one.beside, one.actor, one.reason) == (
        0.05, None, before.id, "tester", "one in twenty",
    )  # fmt: skip
    assert one.release.id == event.release
    assert numbers(one.release) == [3, 2]  # the version for dark is carried over
    assert released.standing().canaries == {MODEL: one}
    assert released.standing("staging").canaries == {}
    title = event_lines(event).splitlines()[0]
    said = f"production: 0.05 of requests to release {event.release}, beside {before.id}"
    assert title.endswith(f"canary-started version 3, {said}")
    assert released.verify() == ()


def test_the_gates_are_those_of_a_full_promotion(released):
    released.promote(MODEL, [3], **TO, share=FEW)  # which they let through
    with pytest.raises(GateRefusal) as in_full:
        released.promote(MODEL, [5], **TO)
    with pytest.raises(GateRefusal) as as_canary:
        released.promote(MODEL, [5], **TO, share=FEW)
    assert as_canary.value.report == in_full.value.report
    assert numbers(canary(released).release) == [3, 2]
    event = released.promote(MODEL, [5], **TO, share=FEW, override_gates=True, reason="for the board")
    assert event.overridden
    with pytest.raises(GateRefusal):  # raised, it is asked again
        released.promote(MODEL, [5], **TO, share=Share(0.5))
    assert canary(released).share == 0.05


def test_a_canary_needs_something_beside_which_it_answers_and_differs_from_it(released):
    with pytest.raises(ReleaseRefused, match="nothing runs under staging"):
        released.promote(MODEL, [1], to="staging", share=FEW)
    with pytest.raises(ReleaseRefused, match="points to versions 1, 2 of skin-lesion already"):
        released.promote(MODEL, [1, 2], **TO, share=FEW)


def test_a_canary_may_be_for_one_subgroup_that_it_knows(released):
    event = released.promote(MODEL, [3], **TO, share=Share(0.2, "dark"))
    assert canary(released).subgroup == "dark"
    assert "0.2 of requests for dark to release" in event_lines(event)
    for name in ("drak", "global", "light"):  # of light there are figures, and no tone is known
        with pytest.raises(NotFound, match="subgroup"):
            released.promote(MODEL, [3], **TO, share=Share(0.2, name))


def test_a_canary_that_is_mirrored_says_so_and_answers_once_it_is_not(released, command):
    event = released.promote(MODEL, [3], **TO, share=Share(1.0, mirror=True))
    mirrored = canary(released)
    assert (mirrored.mirror, mirrored.share, mirrored.title) == (True, 1.0, "1 of requests, mirrored")
    assert "1 of requests mirrored to release" in event_lines(event)
    assert "a canary is shown 1 of requests, mirrored: versions 3 (global), 2" in command("card", MODEL).out
    assert released.promote(MODEL, [3], **TO, share=Share(1.0, mirror=True)) is None
    answers = canary_of_promotion(released, [3], FEW)
    assert (answers.mirror, answers.release) == (False, mirrored.release)
    assert "Beside it a canary answers 0.05 of requests: versions" in command("card", MODEL).out
    with pytest.raises(GateRefusal):  # the gates are the same
        released.promote(MODEL, [5], **TO, share=Share(0.5, mirror=True))
    assert released.verify() == ()


@pytest.mark.parametrize(("share", "mirror"), [(0, False), (1.0, False), (1.1, True), (-0.1, True)])
def test_what_is_no_share(share, mirror):
    with pytest.raises(InvalidName, match="between 0 and 1"):
        Share(share, mirror=mirror)


def test_the_share_changes_by_promoting_again_and_who_had_it_has_it_still(released):
    first = canary_of_promotion(released, [3], FEW)
    event = released.promote(MODEL, [3], **TO, share=Share(0.2), reason="goes well")
    raised = canary(released)
    assert (raised.share, raised.release, raised.key) == (0.2, first.release, first.key)
    assert "its share was: 0.05" in event_lines(event)
    assert released.promote(MODEL, [3], **TO, share=Share(0.2)) is None  # exactly this runs
    again = canary_of_promotion(released, [3], Share(0.01))
    assert (again.share, again.key) == (0.01, first.key)
    other = canary_of_promotion(released, [4], FEW)
    assert other.key != first.key
    assert numbers(other.release) == [4, 2]
    assert f"ended: the canary, release {first.release.id}" in event_lines(released.history(MODEL)[-1])
    assert released.verify() == ()


def canary_of_promotion(registry, named, share):
    registry.promote(MODEL, named, **TO, share=share)
    return canary(registry)


@pytest.mark.parametrize(
    ("end", "what", "then"),
    [
        (lambda registry: registry.promote(MODEL, [3], **TO), "promoted", [3, 2]),
        (lambda registry: registry.promote(MODEL, [1], **TO), "promoted", [1, 2]),
        (lambda registry: registry.rollback(MODEL, alias="production"), "rolled-back", [1, 2]),
        (lambda registry: registry.stop(MODEL, alias="production", reason="a test"), "stopped", None),
        (
            lambda registry: registry.end_canary(MODEL, alias="production", reason="a test"),
            "canary-ended",
            [4, 2],
        ),
    ],
    ids=["in full", "of another", "rollback", "stop", "end"],
)
def test_what_ends_a_canary(released, end, what, then):
    released.promote(MODEL, [4], **TO)
    running = canary_of_promotion(released, [3], FEW)
    event = end(released)
    assert event.kind == what
    assert canary(released) is None
    assert released.standing().canaries == {}
    release = released.release(MODEL, "production")
    assert (None if release is None else numbers(release)) == then
    assert f"ended: the canary, release {running.release.id}" in event_lines(event)
    assert released.verify() == ()
    with pytest.raises(NotFound, match="no canary"):
        released.end_canary(MODEL, alias="production", reason="again")


def test_ending_needs_a_reason_and_going_back_says_how_where_there_is_nothing_before(released):
    released.promote(MODEL, [3], **TO, share=FEW)
    with pytest.raises(ReleaseRefused, match="--reason"):
        released.end_canary(MODEL, alias="production", reason=" ")
    with pytest.raises(NothingToRollBack, match="canary end"):
        released.rollback(MODEL, alias="production")
    assert canary(released) is not None


def test_a_withdrawn_version_ends_the_canary_that_holds_it_and_comes_into_none(released):
    running = canary_of_promotion(released, [3], FEW)
    done = released.withdraw(MODEL, [3], reason="misses melanoma")
    (ended,) = done.moved
    assert (ended.kind, ended.alias, ended.details["because"]) == ("canary-ended", "production", [3])
    assert ended.details["canary"] == running.release.id
    assert canary(released) is None
    assert numbers(released.release(MODEL, "production")) == [1, 2]
    with pytest.raises(VersionWithdrawn):
        released.promote(MODEL, [3], **TO, share=FEW)
    assert released.verify() == ()


def test_withdrawing_a_version_of_both_ends_the_canary_with_the_move(released):
    released.promote(MODEL, [4], **TO)
    released.promote(MODEL, [3], **TO, share=FEW)
    done = released.withdraw(MODEL, [2], reason="misses melanoma")
    assert [one.kind for one in done.moved] == ["stopped"]
    assert canary(released) is None


def test_a_canary_beside_an_alias_that_moves_meanwhile_is_refused(released, monkeypatch):
    judge, begun = promote.judge, []

    def judged(*arguments):
        found = judge(*arguments)
        if not begun:
            begun.append(True)
            released.promote(MODEL, [4], **TO)
        return found

    monkeypatch.setattr(promote, "judge", judged)
    with pytest.raises(AliasMoved):
        released.promote(MODEL, [3], **TO, share=FEW)
    assert canary(released) is None
    event = released.promote(MODEL, [3], **TO, share=FEW)
    assert event.before == released.release(MODEL, "production").id
    assert numbers(canary(released).release) == [3, 2]
    assert canary(released).beside == event.before


def test_many_promote_and_end_at_once_and_the_chain_holds(released):
    refused = []

    def work(number):
        for turn in range(4):
            try:
                if (number + turn) % 3 == 0:
                    released.promote(MODEL, [3 + turn % 2], **TO)
                elif (number + turn) % 3 == 1:
                    released.promote(MODEL, [3 + turn % 2], **TO, share=Share(0.1 + number / 20))
                else:
                    released.end_canary(MODEL, alias="production", reason="a test")
            except (AliasMoved, NotFound, ReleaseRefused) as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert released.verify() == ()
    running = canary(released)
    assert running is None or running.beside == released.release(MODEL, "production").id


def test_approvals_stand_for_a_canary_too_and_end_with_it(person, bundle):
    registry = person("olga", "operator", "uploader")
    anna = person("anna", "approver")
    registry.add([bundle(seed=1), bundle(seed=2)])
    registry.promote(MODEL, [1], **TO, override_gates=True, reason="a test")
    registry.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="two pairs of eyes")
    with pytest.raises(GateRefusal):
        registry.promote(MODEL, [2], **TO, share=FEW)
    anna.approve(MODEL, [2], **TO, reason="seen")
    registry.promote(MODEL, [2], **TO, share=FEW)
    registry.promote(MODEL, [2], **TO, share=Share(0.5))
    with pytest.raises(PersonRefused):
        anna.end_canary(MODEL, alias="production", reason="no operator")
    registry.end_canary(MODEL, alias="production", reason="complaints")
    with pytest.raises(GateRefusal):  # what came to light is to be weighed
        registry.promote(MODEL, [2], **TO, share=FEW)
    anna.approve(MODEL, [2], **TO, reason="seen again")
    assert registry.promote(MODEL, [2], **TO).kind == "promoted"
    assert registry.verify() == ()


def test_nobody_reads_the_key_in_what_commands_and_records_say(released, command):
    running = canary_of_promotion(released, [3], FEW)
    said = "".join(
        command(*words).out
        for words in (
            ("show", MODEL, "--json"),
            ("history", MODEL, "--json"),
            ("list", "--json"),
            ("audit",),
            ("head",),
        )
    )
    assert running.key.hex() not in said
    assert repr(running.key)[2:-1] not in repr(running)
    assert len(running.key) == 32


def test_the_key_is_that_of_its_first_event_and_of_this_registry(released, places):
    """Whoever keeps a head of the chain, which may be published, has not the key."""
    running = canary_of_promotion(released, [3], FEW)
    with reading(released._engine) as connection:
        assert running_canary(connection, MODEL, "production").key == running.key
    places.tamper(f"UPDATE registry_identity SET identity = '{32 * '0'}'")
    changed = released._engine.execution_options(dermfed_registry=None)
    with changed.connect() as connection:
        assert running_canary(connection, MODEL, "production").key != running.key

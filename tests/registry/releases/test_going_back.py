"""Rollbacks, stops and withdrawals: where an alias goes, what history tells, and what is refused after."""

import pytest

from registry.database.queries import stack_of
from registry.errors import NotFound, NothingToApprove, NothingToRollBack, ReleaseRefused, VersionWithdrawn
from registry.gates import GateSet, SpreadGate
from registry.gates.approval import ApprovalsGate
from registry.releases import promote
from registry.views.records import event_lines
from tests.registry.conftest import draw_bundle, draw_graph, figures, tones_of

MODEL = "skin-lesion"
WHY = {"reason": "a test"}


def release(registry):
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.9),)), reason="a test")
    dark = (tones_of("dark", "4", "5", "6"), figures(dark=0.8))
    given = [(), (), (), dark]
    registry.add(draw_bundle(*one, seed=k, graph=draw_graph(name=str(k))) for k, one in enumerate(given))
    for number in (1, 2, 3):
        registry.promote(MODEL, [number], to="production")


@pytest.fixture
def released(filled):
    """Versions 1 to 3 for everybody and 4 for dark, of four model files; releases 1 to 3 of 1 to 3."""
    return filled(release)


def numbers(registry, alias="production"):
    release = registry.release(MODEL, alias)
    return None if release is None else [one.number for one in release.versions]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("promoted", 1), ("promoted", 2), ("rolled-back", 1)], [1]),
        ([("promoted", 1), ("promoted", 2), ("stopped", None)], [1, 2, None]),
        ([("promoted", 1), ("stopped", None), ("rolled-back", 1)], [1]),
        ([("promoted", 1), ("stopped", None), ("promoted", 2)], [2]),
        ([("promoted", 1), ("promoted", 2), ("promoted", 3), ("rolled-back", 1)], [1]),
        ([("promoted", 1), ("promoted", 2), ("stopped", None), ("rolled-back", 1)], [1]),
        ([("promoted", 1), ("stopped", None), ("stopped", None)], [1, None]),
        ([("stopped", None)], []),
        ([("rolled-back", 1)], []),
        ([("promoted", 1), ("promoted", 2), ("rolled-back", 9)], [1]),
    ],
)
def test_the_stack_of_an_alias(steps, expected):
    assert stack_of(steps) == expected


def test_a_stopped_alias_points_to_nothing_and_goes_back_to_what_ran(released):
    event = released.stop(MODEL, alias="production", reason="the ward called")
    assert (event.kind, event.before, event.release, event.reason) == ("stopped", 3, None, "the ward called")
    assert event_lines(event).splitlines()[0].endswith("stopped, production: release 3 -> nothing")
    assert released.current() == {}
    assert released.aliases(MODEL) == {}
    assert released.stopped(MODEL) == {"production": event}
    assert released.standing().stopped == {MODEL}
    assert released.standing("staging").stopped == set()
    with pytest.raises(NotFound, match=r"tester stopped it at .* \(the ward called\)"):
        released.require_release(MODEL, "production")
    with pytest.raises(NotFound, match="the ward called"):
        released.export_release(MODEL, "production", "nowhere")
    assert released.stop(MODEL, alias="production", reason="again") is None
    assert released.verify() == ()
    back = released.rollback(MODEL, alias="production")
    assert (back.before, back.release, numbers(released)) == (None, 3, [3])
    assert released.stopped(MODEL) == {}
    assert released.rollback(MODEL, alias="production").release == 2
    assert released.verify() == ()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda one: one.stop(MODEL, alias="production", reason=" "), ReleaseRefused, "needs a reason"),
        (lambda one: one.stop(MODEL, alias="prodction", reason="t"), NotFound, "the nearest: production"),
        (lambda one: one.stop("other", alias="production", reason="t"), NotFound, "model"),
        (lambda one: one.withdraw(MODEL, [3], reason=" "), ReleaseRefused, "needs a reason"),
        (
            lambda one: one.withdraw(MODEL, [], reason="t"),
            ReleaseRefused,
            "no version of skin-lesion is named",
        ),
        (lambda one: one.withdraw(MODEL, [3, 9], reason="t"), NotFound, "no version 9"),
        (lambda one: one.rollback("other", alias="production"), NotFound, "no model"),
        (lambda one: one.rollback(MODEL, alias="staging"), NotFound, "no alias 'staging'"),
        (lambda one: one.approve(MODEL, [3], to="production"), NothingToApprove, "points to version 3"),
    ],
)
def test_what_cannot_be_done(released, call, error, text):
    with pytest.raises(error, match=text):
        call(released)
    assert (released.withdrawals(), numbers(released)) == ((), [3])


def test_a_stop_forgets_approvals(released, person):
    anna, released = person("anna", "approver"), person("olga")
    released.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="t")
    anna.approve(MODEL, [1], to="production")
    assert not released.judge(MODEL, [1], to="production").refused
    released.stop(MODEL, alias="production", reason="t")
    assert released.judge(MODEL, [1], to="production").refused


def test_every_alias_goes_back_past_withdrawn_versions(released):
    released.promote(MODEL, [2], to="staging")
    released.promote(MODEL, [1], to="canary")
    done = released.withdraw(MODEL, [2], reason="misses melanoma")
    assert (done.event.kind, done.event.versions, done.event.reason) == ("withdrawn", (2,), "misses melanoma")
    (moved,) = done.moved
    assert (moved.kind, moved.alias, moved.before, moved.release) == ("stopped", "staging", 4, None)
    assert moved.details["because"] == [2]
    assert [numbers(released, alias) for alias in ("production", "staging", "canary")] == [[3], None, [1]]
    done = released.withdraw(MODEL, [3], reason="the same")
    (moved,) = done.moved
    assert (moved.kind, moved.before, moved.release, moved.reason) == ("rolled-back", 3, 1, "the same")
    assert moved.details["skipped"] == [{"release": 2, "withdrawn": [2]}]
    told = event_lines(moved)
    assert "since withdrawn: version 3" in told
    assert "skipped: release 2, which holds version 2, withdrawn" in told
    assert numbers(released) == [1]
    assert [(one.number, one.reason) for one in released.withdrawals(MODEL)] == [
        (2, "misses melanoma"),
        (3, "the same"),
    ]
    assert released.withdraw(MODEL, [2, 3], reason="again") is None
    digests = {(MODEL, released.version(MODEL, number).digest) for number in (2, 3)}
    assert released.standing().withdrawn == digests
    assert released.verify() == ()
    with pytest.raises(NothingToRollBack):
        released.rollback(MODEL, alias="production")


def test_a_release_that_carries_a_withdrawn_version_goes_too(released):
    released.promote(MODEL, [4], to="production")
    released.promote(MODEL, [1], to="production")
    assert numbers(released) == [1, 4]
    done = released.withdraw(MODEL, [4], reason="t")
    assert (done.moved[0].release, numbers(released)) == (3, [3])
    assert done.moved[0].details["skipped"] == [{"release": 4, "withdrawn": [4]}]


def test_a_rollback_skips_and_says_so_and_ends_where_nothing_is_left(released):
    released.withdraw(MODEL, [2], reason="t")
    event = released.rollback(MODEL, alias="production")
    assert (event.release, event.details["skipped"]) == (1, [{"release": 2, "withdrawn": [2]}])
    released.promote(MODEL, [3], to="production")
    released.withdraw(MODEL, [1], reason="t")
    with pytest.raises(NothingToRollBack, match="release 1 holds version 1, withdrawn"):
        released.rollback(MODEL, alias="production")
    released.withdraw(MODEL, [3], reason="t")
    assert numbers(released) is None
    with pytest.raises(NothingToRollBack, match="was stopped, and nothing before it may answer"):
        released.rollback(MODEL, alias="production")
    assert released.verify() == ()


def test_a_withdrawn_version_never_comes_back(released, tmp_path):
    released.export_release(MODEL, "production", tmp_path / "release.dermfed")
    bad = released.bundle(released.version(MODEL, 3))
    released.withdraw(MODEL, [3], reason="misses melanoma")
    for call in (
        lambda: released.promote(MODEL, [3], to="production", override_gates=True, **WHY),
        lambda: released.promote(MODEL, [3], to="elsewhere", **WHY),
        lambda: released.approve(MODEL, [3], to="production"),
        lambda: released.compare(MODEL, [3], to="production"),
        lambda: released.import_release(tmp_path / "release.dermfed", to=["production"]),
        lambda: released.import_release(tmp_path / "release.dermfed"),
    ):
        with pytest.raises(
            VersionWithdrawn, match=r"version 3 .* WITHDRAWN at .*: misses melanoma.*no way back"
        ):
            call()
    added = released.add_and_report([bad])
    assert (added.new, [one.number for one in added.versions]) == ((), [3])
    assert "version 3 of skin-lesion is WITHDRAWN" in added.warnings[0]
    assert released.verify() == ()


def test_what_is_withdrawn_is_not_exported_though_an_alias_was_moved_there_by_hand(
    released, places, tmp_path
):
    released.withdraw(MODEL, [3], reason="t")
    places.tamper("UPDATE aliases SET release_id = 3")
    with pytest.raises(VersionWithdrawn, match="version 3"):
        released.export_release(MODEL, "production", tmp_path / "release.dermfed")
    assert not (tmp_path / "release.dermfed").exists()


def test_the_same_model_file_under_another_manifest_is_told_and_takes_a_reason(released, bundle, graph):
    released.withdraw(MODEL, [3], reason="misses melanoma")
    added = released.add_and_report([bundle(seed=9, graph=graph(name="2"))])
    (told,) = added.warnings
    assert told.startswith(
        "version 5 of skin-lesion has the same model.onnx as version 3 of skin-lesion, which is WITH"
    )
    assert told in released.compare(MODEL, [5], to="production").warnings
    with pytest.raises(ReleaseRefused, match=r"the same model\.onnx as version 3.*--reason"):
        released.promote(MODEL, [5], to="production")
    event = released.promote(MODEL, [5], to="production", reason="thresholds were wrong, and are mended")
    assert event.release == 4
    assert released.withdraw(MODEL, [5], reason="no, it was the file").same_file == ()
    assert released.withdraw(MODEL, [1], reason="t").same_file == ()


@pytest.mark.parametrize("action", ["promote", "approve"])
def test_what_is_withdrawn_while_it_is_looked_at_is_refused(released, monkeypatch, action):
    check = promote.check_integrity

    def check_and_withdraw(*given):
        check(*given)
        released.withdraw(MODEL, [1], reason="just now")

    monkeypatch.setattr(promote, "check_integrity", check_and_withdraw)
    with pytest.raises(VersionWithdrawn, match="just now"):
        getattr(released, action)(MODEL, [1], to="production", override_gates=True, **WHY)
    assert numbers(released) == [3]


@pytest.mark.parametrize(
    ("statement", "about"),
    [
        ("DELETE FROM withdrawals", "the withdrawal of version 2 of skin-lesion"),
        ("UPDATE withdrawals SET reason = 'nothing'", "the withdrawal of version 2 of skin-lesion"),
        (
            "INSERT INTO withdrawals VALUES (1, 'x', '2026-01-01T00:00:00.000000+00:00')",
            "the withdrawal of version 1 of skin-lesion",
        ),
        (
            "INSERT INTO aliases VALUES ('skin-lesion', 'staging', 1)",
            "alias staging of skin-lesion",
        ),
    ],
)
def test_verify_finds_what_history_does_not_tell(released, places, statement, about):
    released.promote(MODEL, [1], to="staging")
    released.stop(MODEL, alias="staging", reason="t")
    released.withdraw(MODEL, [2], reason="misses melanoma")
    assert released.verify() == ()
    places.tamper(statement)
    assert about in [issue.about for issue in released.verify()]

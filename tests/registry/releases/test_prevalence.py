"""The stated prevalence of malignancy: kept with the release and in history, read by the service."""

import pytest

from registry.errors import GateRefusal, InvalidName, NotFound
from registry.gates import GateSet, SpreadGate
from registry.gates.approval import ApprovalsGate
from registry.releases.rollout import Share
from registry.views.records import event_lines

MODEL = "skin-lesion"
STATED = {"dark": 0.08, "light": 0.12}
pytestmark = pytest.mark.sqlite


@pytest.fixture
def filled(registry, bundle, tested, dark):
    """Versions 1 and 2 for everybody, tested on light and dark, 3 for dark."""
    figures = tested(light=0.9, dark=0.9)
    registry.add([bundle(metrics=figures), bundle(metrics=figures, seed=1), bundle(dark, tested(dark=0.9))])
    registry.set_gates(GateSet(gates=(SpreadGate(limit=0.5),)), reason="t")
    return registry


def stated(registry, alias="production"):
    return registry.prevalence(registry.release(MODEL, alias))


def test_it_is_kept_with_the_release_and_in_history(filled):
    filled.promote(MODEL, [1, 3], to="production")
    event = filled.promote(MODEL, [2], to="production", prevalence={"dark": 0.08})
    assert stated(filled) == {"dark": 0.08}
    assert "stated prevalence of malignancy: dark 0.08" in event_lines(event)
    assert filled.history(MODEL)[-1].details["prevalence"] == {"dark": 0.08}
    filled.rollback(MODEL, alias="production")
    assert stated(filled) == {}
    filled.promote(MODEL, [2], to="production", prevalence={"dark": 0.2})
    filled.stop(MODEL, alias="production", reason="t")
    filled.promote(MODEL, [2], to="production")
    assert stated(filled) == {}
    assert filled.verify() == ()


@pytest.mark.parametrize(
    ("second", "then", "releases"),
    [
        ({}, {"dark": 0.08}, 1),  # not stated: as before, and nothing to do
        ({"prevalence": {"dark": 0.08}}, {"dark": 0.08}, 1),
        ({"prevalence": {"dark": 0.1}}, {"dark": 0.1}, 2),
    ],
)
def test_it_stays_until_another_is_stated(filled, second, then, releases):
    filled.promote(MODEL, [1, 3], to="production", prevalence={"dark": 0.08})
    filled.promote(MODEL, [1, 3], to="production", **second)
    assert (stated(filled), filled.release(MODEL, "production").id) == (then, releases)
    filled.promote(MODEL, [2], to="production")
    assert stated(filled) == then
    filled.rollback(MODEL, alias="production")
    assert stated(filled) == then


@pytest.mark.parametrize(
    ("prevalence", "error", "said"),
    [
        ({"dark": 0.0}, InvalidName, "the prevalence 0 for dark is not between 0 and 1"),
        ({"dark": 1.0}, InvalidName, "the prevalence 1 for dark"),
        ({"dark": float("nan")}, InvalidName, "the prevalence nan for dark"),
        ({"dusk": 0.1}, NotFound, "dusk"),
        ({"global": 0.1}, NotFound, "global"),
    ],
)
def test_what_is_no_prevalence_is_refused(filled, prevalence, error, said):
    with pytest.raises(error, match=said):
        filled.promote(MODEL, [1, 3], to="production", prevalence=prevalence)
    assert filled.release(MODEL, "production") is None


def test_a_canary_has_its_own(filled):
    filled.promote(MODEL, [1, 3], to="production", prevalence={"dark": 0.08})
    for share, of in ((0.1, 0.2), (0.2, 0.2), (0.2, 0.3)):
        filled.promote(MODEL, [2], to="production", share=Share(share), prevalence={"dark": of})
    started = [one for one in filled.history(MODEL) if one.kind == "canary-started"]
    assert [one.release for one in started] == [2, 2, 3]
    assert filled.prevalence(filled.canaries(MODEL)["production"].release) == {"dark": 0.3}
    assert stated(filled) == {"dark": 0.08}


def test_it_is_approved_with_the_release(person, bundle, tested, dark):
    olga, anna = person("olga", "operator", "uploader"), person("anna", "approver")
    olga.add([bundle(metrics=tested(dark=0.9)), bundle(dark, tested(dark=0.9))])
    olga.set_gates(GateSet(gates=(ApprovalsGate(people=1),)), reason="t")
    anna.approve(MODEL, [1, 2], to="production")
    with pytest.raises(GateRefusal, match=r"approve skin-lesion 1 2 --prevalence dark=0.08 --to production"):
        olga.promote(MODEL, [1, 2], to="production", prevalence={"dark": 0.08})
    anna.approve(MODEL, [1, 2], to="production", prevalence={"dark": 0.08})
    olga.promote(MODEL, [1, 2], to="production", prevalence={"dark": 0.08})
    assert not olga.judge_again(MODEL, alias="production").refused
    anna.approve(MODEL, [1, 2], to="production", prevalence={"dark": 0.1})  # the same versions
    olga.promote(MODEL, [1, 2], to="production", prevalence={"dark": 0.1})
    assert stated(olga) == {"dark": 0.1}

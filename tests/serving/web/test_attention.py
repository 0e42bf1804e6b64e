"""What needs whoever runs the service: the worst first, each with what to do."""

from types import SimpleNamespace

from serving.web.operator_page import attention

RELEASE = SimpleNamespace(release=SimpleNamespace(id=7))
SERVED = SimpleNamespace(releases={"skin-lesion": RELEASE}, silenced={})


def look(state=SERVED, troubles=(), history=None, forged=None, drift=()):
    return attention(state, troubles, history or {}, forged or {}, drift)


def event(release=7, overridden=True):
    return SimpleNamespace(release=release, overridden=overridden)


def test_health_comes_before_all_else():
    found = look(troubles=["the disk is full"], history={"skin-lesion": [event()]})
    assert [one.text for one in found.matters] == [
        "the disk is full.",
        "A gate had refused release 7 of skin-lesion and was overridden.",
    ]
    assert found.sentence == "Something is wrong: one thing to act on."


def test_a_model_that_was_stopped_is_wrong_and_said_once():
    state = SimpleNamespace(releases={}, silenced={"skin-lesion": "skin-lesion was stopped"})
    assert [one.text for one in look(state).matters] == ["skin-lesion was stopped."]
    assert look(state).level == "wrong"


def test_a_service_of_nothing_says_what_to_do():
    (matter,) = look(SimpleNamespace(releases={}, silenced={})).matters
    assert matter.text == "No model has been promoted."
    assert "dermfed-registry promote" in matter.todo


def test_a_forged_event_is_wrong():
    assert look(forged={"skin-lesion": frozenset({3})}).level == "wrong"
    assert look(forged={"skin-lesion": None}).level == "fine"


def test_drift_is_told_once_for_a_model():
    rows = [
        SimpleNamespace(model="skin-lesion", measure=measure, subgroup="dark", verdict=verdict)
        for measure, verdict in (("confidence", "drifted"), ("malignancy", "drifted"), ("classes", "shifted"))
    ]
    (matter,) = look(drift=rows).matters
    assert matter.text.endswith("confidence (dark), malignancy (dark).")
    assert not matter.wrong

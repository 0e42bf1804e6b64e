"""What needs whoever runs the service, the worst first; and the marks of the reliability diagram."""

from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import ScoreHistograms
from serving.web.operator_page import LEAST, attention, reliability

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


def histograms(confidences, right):
    """Of answers with these confidences, right or wrong."""
    probabilities = np.stack([np.array(confidences), 1 - np.array(confidences)], axis=1)
    labels = np.where(right, 0, 1)
    return ScoreHistograms.from_counts(count(probabilities, labels, malignant=np.array([True, False])).point)


def test_a_mark_is_the_mean_confidence_and_the_share_that_was_right():
    marks = reliability(histograms([0.95] * 20 + [0.75] * 12, [True] * 15 + [False] * 5 + [True] * 12))
    assert [mark.n for mark in marks] == [12, 20]
    assert [mark.right for mark in marks] == [1.0, 0.75]
    assert [mark.confidence for mark in marks] == pytest.approx(
        [0.75, 0.95], abs=0.03
    )  # half a bin of log-odds
    low, high = marks[1].interval
    assert (low, high) == pytest.approx((0.531, 0.888), abs=0.002)  # Wilson's for 15 of 20


def test_bins_with_few_pictures_are_not_drawn():
    assert reliability(histograms([0.95] * (LEAST - 1), [True] * (LEAST - 1))) == []


def test_bundles_that_do_not_tell_what_was_right_have_no_marks():
    told = histograms([0.95] * 20, [True] * 20)
    assert reliability(told.model_copy(update={"right": None})) == []

"""The operator's page: what needs somebody, the worst first; the release; the reliability diagram."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from registry.bundle.counting import count
from registry.bundle.counts import ScoreHistograms
from registry.errors import DatabaseError
from registry.registry import Registry
from serving.web.operator_page import LEAST, Seen, attention, reliability
from tests.serving.web.test_pages import HTML, Texts

SERVED = SimpleNamespace(
    releases={"skin-lesion": SimpleNamespace(release=SimpleNamespace(id=7))}, silenced={}
)
EMPTY = SimpleNamespace(releases={}, silenced={})
STOPPED = SimpleNamespace(releases={}, silenced={"skin-lesion": "skin-lesion was stopped"})
OVERRIDDEN = {"skin-lesion": [SimpleNamespace(release=7, overridden=True)]}


def look(state=SERVED, troubles=(), history=None, forged=None, drift=()):
    told = {"history": history or {}, "forged": forged or {}, "drift": drift}
    return attention(Seen(state, {}, troubles=troubles, decisions={}, shadow=(), **told))


def test_health_comes_before_all_else():
    found = look(troubles=["the disk is full"], history=OVERRIDDEN)
    assert [one.text for one in found.matters] == [
        "the disk is full.",
        "A gate had refused release 7 of skin-lesion and was overridden.",
    ]
    assert found.sentence == "Something is wrong: one thing to act on."


@pytest.mark.parametrize(
    ("state", "text", "todo"),
    [
        (EMPTY, "No model has been promoted.", "dermfed-registry promote"),
        (STOPPED, "skin-lesion was stopped.", "Promote a version"),
    ],
    ids=["no model", "a stopped model"],
)
def test_a_service_without_a_model_is_wrong_and_says_what_to_do(state, text, todo):
    (matter,) = look(state).matters
    assert (matter.text, matter.wrong) == (text, True)
    assert todo in matter.todo


def test_a_model_that_answers_again_is_not_said_to_be_stopped():
    back = SimpleNamespace(releases=SERVED.releases, silenced=STOPPED.silenced)
    assert look(back).matters == ()


def test_a_forged_event_is_wrong():
    assert look(forged={"skin-lesion": frozenset({3})}).level == "wrong"
    assert look(forged={"skin-lesion": None}).level == "fine"


def test_drift_of_a_model_is_one_matter():
    verdicts = {"confidence": "drifted", "malignancy": "drifted", "classes": "shifted"}
    rows = [
        SimpleNamespace(model="skin-lesion", measure=measure, subgroup="dark", verdict=verdict)
        for measure, verdict in verdicts.items()
    ]
    (matter,) = look(drift=rows).matters
    assert matter.text.endswith(": confidence (dark), malignancy (dark).")
    assert not matter.wrong


def histograms(confidences, right):
    """Of answers with these confidences, right or wrong."""
    probabilities = np.stack([np.array(confidences), 1 - np.array(confidences)], axis=1)
    labels = np.where(right, 0, 1)
    return ScoreHistograms.from_counts(count(probabilities, labels, malignant=np.array([True, False])).point)


def test_a_mark_is_the_mean_confidence_and_the_share_that_was_right():
    marks = reliability(histograms([0.95] * 20 + [0.75] * 12, [True] * 15 + [False] * 5 + [True] * 12))
    assert [(mark.n, mark.right) for mark in marks] == [(12, 1.0), (20, 0.75)]
    half_a_bin = 0.03  # of log-odds
    assert [mark.confidence for mark in marks] == pytest.approx([0.75, 0.95], abs=half_a_bin)
    assert marks[1].interval == pytest.approx((0.531, 0.888), abs=0.002)  # Wilson's for 15 of 20


def test_bins_with_few_pictures_or_without_what_was_right_are_not_drawn():
    assert reliability(histograms([0.95] * (LEAST - 1), [True] * (LEAST - 1))) == []
    enough = histograms([0.95] * 20, [True] * 20)
    assert reliability(enough) != []
    assert reliability(enough.model_copy(update={"right": None})) == []


def read(service):
    answer = service.client.get("/operator", headers=HTML)
    assert answer.status_code == 200
    return Texts(answer.text)


def test_the_page_shows_the_release_its_fairness_and_what_was_done(service, released):
    service.diagnose(params={"skin_tone": "V"})
    service.eventually(lambda: "Nothing has been answered yet" not in read(service).text)
    page = read(service)
    assert f"Release {released.id}, production" in page.text
    assert [one.digest for one in released.versions if one.digest not in page.text] == []
    assert "Test figures by skin tone" in page.text
    assert "promoted versions 1, 2, 3, production: release none -> 1" in page.text
    assert "Answers by version and declared skin tone" in page.text


def test_words_of_others_are_never_markup(serve, registry, promote, bundle):
    promote(registry, bundle())
    reason = "<script>alert(1)</script>"
    registry.promote("skin-lesion", [1], to="staging", override_gates=True, reason=reason)
    with serve() as service:
        text = service.client.get("/operator", headers=HTML).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>" not in text


def test_a_release_that_cannot_be_served_stands_at_the_top(places, serve, registry, promote, bundle):
    first = bundle()
    promote(registry, first)
    release = promote(registry, bundle(seed=1))
    with serve() as service:
        assert "Something is wrong" not in read(service).text
        places.spoil(first.digest)
        registry.rollback("skin-lesion", alias="production")
        service.eventually(lambda: "Something is wrong" in read(service).text)
        page = read(service)
    assert page.text.index("cannot be served") < page.text.index(f"Release {release.id}, production")


def test_a_release_that_a_gate_had_refused_is_called_so_after_a_rollback_to_it_too(
    serve, registry, promote, bundle
):
    refused = promote(registry, bundle(metrics={}))  # of which the gates know nothing
    promote(registry, bundle(seed=1))
    registry.rollback("skin-lesion", alias="production")
    with serve() as service:
        page = read(service)
    assert f"Release {refused.id}, production" in page.text
    assert "A gate had refused it and was overridden" in page.words


def test_a_forged_signature_stands_out(service, monkeypatch):
    history = Registry.history

    def as_if_signed(self, model):
        return [replace(one, details={"signed": {"key": "sha256:0"}}) for one in history(self, model)]

    monkeypatch.setattr(Registry, "history", as_if_signed)
    monkeypatch.setattr(Registry, "forged", lambda self, events: frozenset())
    assert "NOT SIGNED" not in read(service).text
    monkeypatch.setattr(Registry, "forged", lambda self, events: frozenset(one.id for one in events))
    assert "NOT SIGNED, though it says so" in read(service).text


def test_the_page_is_there_when_the_registry_is_not(service, monkeypatch):
    def fail(self, model):
        raise DatabaseError("the disk is gone")

    monkeypatch.setattr(Registry, "history", fail)
    page = read(service)
    assert "what was done to skin-lesion cannot be read: the disk is gone." in page.text
    assert "Versions that answer" in page.text

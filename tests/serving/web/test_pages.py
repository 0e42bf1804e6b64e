"""The pages as a browser without a script, or somebody with bad intentions, gets them."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from registry.errors import DatabaseError
from registry.registry import Registry
from serving.http.middleware import PAGE_POLICY
from serving.web.picture_page import read_form
from serving.web.rendering import percent
from tests.case_bundles import case_bundle
from tests.serving.conftest import encode

PICTURES = {"close_up": (200, 90, 30), "dermoscopic": (90, 160, 40)}
HTML = {"Accept": "text/html,application/xhtml+xml"}


class Texts(HTMLParser):
    """What is on a page: its words, and the attributes of its tags."""

    def __init__(self, html):
        super().__init__()
        self.words, self.tags = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def send(service, picture, **options):
    files = {"image": ("lesion.jpg", picture(size=(64, 48)), "image/jpeg")}
    headers = {**HTML, **options.pop("headers", {})}
    return service.client.post("/", files=files, headers=headers, **options)


def test_no_skin_tone_is_preselected_and_every_one_can_be_chosen(service):
    page = Texts(service.client.get("/", headers=HTML).text)
    chosen = [one for one in page.all("option") if "selected" in one]
    assert chosen == [{"value": "", "selected": None}]
    values = {one["value"] for one in page.all("option")}
    assert {"fitzpatrick 5", "monk 10", "milk10k 0", "ddi 56"} <= values
    assert read_form([], {"tone": "monk 10"}).skin_tone_scale == "monk"


def test_a_picture_gets_the_answer_that_the_interface_gives(service, picture):
    answer = send(service, picture, data={"tone": "fitzpatrick 5"})
    assert answer.status_code == 200
    told = service.diagnose(picture(size=(64, 48)), params={"skin_tone": "V"}).json()
    page = Texts(answer.text)
    assert told["disclaimer"] in page.text
    assert f"version {told['model']['version']} (dark)" in page.text
    for finding in told["findings"]:
        assert f"{finding['name']} {finding['code']}" in page.text
        assert percent(finding["probability"]) in page.text
    for said in (*told["warnings"], *(reason["text"] for reason in told["reasons"])):
        assert said in page.text
    headline = {"report": "Report", "refer": "Refer", "retake": "Take another picture"}[told["decision"]]
    assert headline in page.words
    assert {"value": "fitzpatrick 5", "selected": None} in page.all("option")
    assert answer.headers["x-request-id"] in page.text


def test_what_goes_wrong_is_a_page_for_people_and_a_document_for_programs(service, problem):
    files = {"image": ("lesion.jpg", b"no picture at all", "image/jpeg")}
    for_people = service.client.post("/", files=files, headers=HTML)
    assert for_people.status_code == 400
    assert for_people.headers["content-security-policy"] == PAGE_POLICY
    page = Texts(for_people.text)
    assert "Not an image" in page.words
    assert f"request {for_people.headers['x-request-id']}" in page.text
    assert problem(service.client.post("/", files=files), 400)["title"] == "Not an image"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "null"}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://dermfed.hospital.example"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({}, 200),
    ],
)
def test_a_form_that_another_site_sends_is_refused(service, picture, headers, status):
    assert send(service, picture, headers=headers).status_code == status


def test_the_operator_sees_the_release_its_fairness_and_what_was_done(service, released):
    service.diagnose(params={"skin_tone": "V"})
    service.eventually(lambda: "Nothing has been answered yet" not in service.client.get("/operator").text)
    page = Texts(service.client.get("/operator", headers=HTML).text)
    assert f"Release {released.id}, production" in page.text
    for version in released.versions:
        assert version.digest in page.text
    assert "Test figures by skin tone" in page.text
    assert "promoted versions 1, 2, 3, production: release none -> 1" in page.text
    assert "Answers by version and declared skin tone" in page.text


def test_words_of_others_are_never_markup(places, serve, registry, promote, bundle):
    promote(registry, bundle())
    registry.promote(
        "skin-lesion", [1], to="staging", override_gates=True, reason="<script>alert(1)</script>"
    )
    with serve() as service:
        text = service.client.get("/operator", headers=HTML).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>" not in text


def test_what_keeps_something_from_working_stands_at_the_top(places, serve, registry, promote, bundle):
    first = bundle()
    promote(registry, first)
    release = promote(registry, bundle(seed=1))
    with serve() as service:
        assert "Something is wrong" not in service.client.get("/operator").text
        places.spoil(first.digest)
        registry.rollback("skin-lesion", alias="production")
        service.eventually(lambda: "Something is wrong" in service.client.get("/operator").text)
        page = Texts(service.client.get("/operator").text)
    assert "cannot be served" in page.text
    assert page.text.index("cannot be served") < page.text.index(f"Release {release.id}, production")


def test_a_release_that_a_gate_had_refused_is_called_so_after_a_rollback_to_it_too(
    serve, registry, promote, bundle
):
    refused = promote(registry, bundle(metrics={}))  # of which the gates know nothing
    assert any(event.overridden for event in registry.history("skin-lesion"))
    promote(registry, bundle(seed=1))
    registry.rollback("skin-lesion", alias="production")
    with serve() as service:
        page = Texts(service.client.get("/operator", headers=HTML).text)
    assert f"Release {refused.id}, production" in page.text
    assert "A gate had refused it and was overridden" in page.words


def test_the_operator_is_told_of_a_signature_that_does_not_hold(service, monkeypatch):
    told = Registry.history

    def as_if_signed(self, model):
        return [replace(one, details={"signed": {"key": "sha256:0"}}) for one in told(self, model)]

    monkeypatch.setattr(Registry, "history", as_if_signed)
    monkeypatch.setattr(Registry, "forged", lambda self, events: frozenset())
    assert "NOT SIGNED" not in service.client.get("/operator", headers=HTML).text
    monkeypatch.setattr(Registry, "forged", lambda self, events: frozenset(one.id for one in events))
    assert "NOT SIGNED, though it says so" in service.client.get("/operator", headers=HTML).text


def test_the_operators_page_is_there_when_the_registry_is_not(service, monkeypatch):
    def fail(self, model):
        raise DatabaseError("the disk is gone")

    monkeypatch.setattr(Registry, "history", fail)
    answer = service.client.get("/operator", headers=HTML)
    assert answer.status_code == 200
    page = Texts(answer.text)
    assert "what was done to skin-lesion cannot be read: the disk is gone." in page.text
    assert "Versions that answer" in page.text


def test_the_form_has_what_the_model_takes_and_says_it_again(places, serve, registry, promote, image):
    promote(registry, case_bundle())
    sent = {name: ("a.png", encode(image(colour), "PNG"), "image/png") for name, colour in PICTURES.items()}
    with serve() as service:
        form = Texts(service.client.get("/", headers=HTML).text)
        facts = {"age": "70", "sex": "", "site": "head_neck"}
        whole = Texts(service.client.post("/", files=sent, data=facts, headers=HTML).text)
        alone = Texts(service.client.post("/", files={"close_up": sent["close_up"]}, headers=HTML).text)
        dermoscopic = {"dermoscopic": sent["dermoscopic"]}
        nothing = Texts(service.client.post("/", files=dermoscopic, data={"age": "70"}, headers=HTML).text)
        refused = service.client.post("/", files=sent, data={"age": "700"}, headers=HTML)
    named = {one["name"] for one in (*form.all("input"), *form.all("select"))}
    assert named == {"close_up", "dermoscopic", "age", "sex", "site", "tone"}
    assert {"value": "head_neck", "selected": None} in whole.all("option")
    assert "70" in [one.get("value") for one in whole.all("input")]
    assert "a close-up a dermoscopic picture age: 70 site: head neck" in whole.text
    assert "For lesions of which this much is given" in whole.text
    assert "Sex : in calibration 0.2 fewer classes were possible and 10 more of 100" in whole.text
    assert "A dermoscopic picture : in calibration 0.9 fewer classes" in alone.text
    assert "Age and sex and site : in calibration" in alone.text
    assert "Nothing is promised for what was given" in nothing.text
    assert refused.status_code == 422
    assert "age 700 is out of bounds" in Texts(refused.text).text

"""The page that answers, as a browser without a script, or an attacker, gets it."""

from html.parser import HTMLParser

import pytest

from serving.http.middleware import PAGE_POLICY
from serving.web.picture_page import read_form
from serving.web.rendering import percent
from tests.case_bundles import case_bundle
from tests.serving.conftest import encode, paint

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
    expected = service.diagnose(picture(size=(64, 48)), params={"skin_tone": "V"}).json()
    page = Texts(answer.text)
    for finding in expected["findings"]:
        assert f"{finding['name']} {finding['code']}" in page.text
        assert percent(finding["probability"]) in page.text
    for said in (*expected["warnings"], *(reason["text"] for reason in expected["reasons"])):
        assert said in page.text
    headline = {"report": "Report", "refer": "Refer", "retake": "Take another picture"}[expected["decision"]]
    assert headline in page.words
    assert expected["disclaimer"] in page.text
    assert f"version {expected['model']['version']} (dark)" in page.text
    assert answer.headers["x-request-id"] in page.text
    assert {"value": "fitzpatrick 5", "selected": None} in page.all("option")


def test_an_error_is_a_page_for_people_and_a_document_for_programs(service, problem):
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


def test_a_form_for_cases_keeps_what_was_given_and_says_what_more_would_help(serve, registry, promote):
    promote(registry, case_bundle())
    drawn = {"close_up": paint((200, 90, 30)), "dermoscopic": paint((90, 160, 40))}
    files = {name: ("a.png", encode(image, "PNG"), "image/png") for name, image in drawn.items()}
    with serve() as service:

        def ask(*kinds, **facts):
            sent = {kind: files[kind] for kind in kinds}
            answer = service.client.post("/", files=sent, data=facts, headers=HTML)
            return answer.status_code, Texts(answer.text)

        form = Texts(service.client.get("/", headers=HTML).text)
        _, whole = ask("close_up", "dermoscopic", age="70", sex="", site="head_neck")
        _, alone = ask("close_up")
        _, uncalibrated = ask("dermoscopic", age="70")
        status, refused = ask("close_up", age="700")
    named = {one["name"] for one in (*form.all("input"), *form.all("select"))}
    assert named == {"close_up", "dermoscopic", "age", "sex", "site", "tone"}
    assert {"value": "head_neck", "selected": None} in whole.all("option")
    assert "70" in [one.get("value") for one in whole.all("input")]
    assert "a close-up a dermoscopic picture age: 70 site: head neck" in whole.text
    assert "For lesions of which this much is given" in whole.text
    assert "Sex : in calibration 0.2 fewer classes were possible and 10 more of 100" in whole.text
    assert "A dermoscopic picture : in calibration 0.9 fewer classes" in alone.text
    assert "Age and sex and site : in calibration" in alone.text
    assert "Nothing is promised for what was given" in uncalibrated.text
    assert (status, "age 700 is out of bounds" in refused.text) == (422, True)

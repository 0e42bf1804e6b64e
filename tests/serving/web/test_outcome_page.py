"""The pages on which an outcome is given: two clicks, nothing chosen before, nothing of a person on them."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from registry.outcomes.store import OutcomeStore
from serving.http.middleware import PAGE_POLICY
from tests.serving.web.test_pages import HTML, Texts, send

TODAY = datetime.now(UTC).date()
MELANOMA = {"label": "MEL", "confirmed_by": "histopathology", "date": TODAY.isoformat()}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'outcomes.db'}"


@pytest.fixture
def kept(serve, registry, promote, bundle, dark, url):
    """A service that keeps answers."""
    promote(registry, bundle(), bundle(dark))
    with serve(outcomes_url=url) as service:
        yield service


def ask(service, picture, **options):
    """The page of an answer, and the answer's number."""
    answer = send(service, picture, **options)
    assert answer.status_code == 200
    return answer, answer.headers["x-request-id"]


def look(service, id_, **options):
    return service.client.get(f"/diagnoses/{id_}", headers={**HTML, **options.pop("headers", {})}, **options)


def give(service, id_, fields=MELANOMA, **options):
    headers = {**HTML, **options.pop("headers", {})}
    return service.client.post(f"/diagnoses/{id_}", data=fields, headers=headers, **options)


def filled(html, choice, button):
    """What a browser sends of the last form, where a disease is chosen and a button pressed, no more."""
    form = html[html.rindex('class="outcome-form"') :]
    form = Texts(form[: form.index("</form>")])
    offered = [one for one in form.all("input") if one["type"] == "radio"]
    assert choice in [one["value"] for one in offered]
    assert {"name": "confirmed_by", "value": button, "class": "button"} in form.all("button")
    rest = {one["name"]: one["value"] for one in form.all("input") if one["type"] != "radio"}
    return {"label": choice, "confirmed_by": button, **rest}


def test_two_clicks_on_the_page_of_an_answer_give_its_outcome(kept, picture, url):
    answer, id_ = ask(kept, picture)
    given = give(kept, id_, filled(answer.text, "NV", "dermatologist"))
    assert (given.status_code, given.headers["location"]) == (303, f"/diagnoses/{id_}")
    page = Texts(look(kept, id_).text)
    assert f"Melanocytic naevus NV Dermatologist, {TODAY}; told on {TODAY}." in page.text
    with OutcomeStore.open(url) as store, store.engine.connect() as connection:
        told = connection.exec_driver_sql("SELECT label, confirmed_by, key FROM outcomes").fetchall()
    assert told == [(1, "dermatologist", None)]


@pytest.mark.parametrize("colour", [(250, 10, 10), (10, 250, 10), (10, 10, 250)])
def test_nothing_is_chosen_beforehand_whatever_was_answered(kept, picture, colour):
    """The form of one answer is that of any other: the same order, and nothing checked."""
    files = {"image": ("lesion.png", picture("PNG", colour=colour, size=(64, 48)), "image/png")}
    answer = kept.client.post("/", files=files, headers=HTML)
    id_ = answer.headers["x-request-id"]
    for html in (answer.text, look(kept, id_).text):
        form = Texts(html[html.rindex('class="outcome-form"') :])
        offered = [one for one in form.all("input") if one["type"] == "radio"]
        assert [one["value"] for one in offered] == ["MEL", "NV", "AK"]
        assert not any("checked" in one or "selected" in one for one in offered)
        assert "autofocus" not in html
        first, *others = form.all("button")  # the Enter key presses the first button of a form
        assert first == {"class": "unseen", "aria-hidden": "true", "tabindex": "-1"}
        assert [one["value"] for one in others] == ["histopathology", "dermatologist", "follow-up"]
        assert form.text.count("malignant") == 1
    assert re.search(r"<details>\s*<summary><h3>What was answered", look(kept, id_).text)


def test_an_outcome_is_corrected_and_taken_back_on_the_page(kept, picture):
    _, id_ = ask(kept, picture)
    give(kept, id_)
    correction = filled(look(kept, id_).text, "AK", "follow-up")
    assert give(kept, id_, correction).status_code == 303
    text = look(kept, id_).text
    assert "It does not stand any more." in text
    back = Texts(text[: text.index("outcome-form")])
    fields = {one["name"]: one["value"] for one in back.all("input")}
    assert fields["label"] == ""
    assert give(kept, id_, fields).status_code == 303
    page = Texts(look(kept, id_).text)
    assert "Taken back" in page.words
    assert page.text.count("It does not stand any more.") == 2
    assert "Give the outcome" in page.words


def test_a_page_that_somebody_was_faster_than_overwrites_nothing(kept, picture):
    _, id_ = ask(kept, picture)
    empty = look(kept, id_).text
    give(kept, id_)
    seen = look(kept, id_).text
    late = give(kept, id_, filled(empty, "NV", "dermatologist"))
    assert late.status_code == 409
    assert "Another outcome is known" in Texts(late.text).words
    assert give(kept, id_, filled(seen, "AK", "dermatologist")).status_code == 303
    assert give(kept, id_, filled(seen, "NV", "dermatologist")).status_code == 409
    # The page of the refusal shows what is known now, so that it can be corrected.
    again = give(kept, id_, filled(seen, "NV", "dermatologist"))
    assert give(kept, id_, filled(again.text, "NV", "dermatologist")).status_code == 303


@pytest.mark.parametrize(
    ("fields", "status", "why"),
    [
        ({**MELANOMA, "label": "XYZ"}, 422, "valid: MEL, NV, AK"),
        ({**MELANOMA, "date": (TODAY + timedelta(days=3)).isoformat()}, 422, "in the future"),
        ({"confirmed_by": "histopathology", "date": TODAY.isoformat()}, 422, "nothing was chosen"),
        ({"label": "MEL", "date": TODAY.isoformat()}, 422, "press the button of how it is known"),
        ({**MELANOMA, "label": ""}, 422, "no outcome of this answer to withdraw"),
        ({**MELANOMA, "instead_of": "9" * 30}, 422, "cannot be read"),
        ({**MELANOMA, "patient": "Erika Musterfrau"}, 422, "fields that its page has not"),
        ({**MELANOMA, "label": "<script>alert(1)</script>"}, 422, "&lt;script&gt;"),
        ({**MELANOMA, "label": "x" * 5000}, 413, "4,096 bytes"),
    ],
)
def test_what_is_no_outcome_is_told_on_a_page(kept, picture, fields, status, why):
    _, id_ = ask(kept, picture)
    answer = give(kept, id_, fields)
    assert (answer.status_code, answer.headers["content-security-policy"]) == (status, PAGE_POLICY)
    assert why in answer.text
    assert "<script>alert" not in answer.text
    assert "Erika" not in answer.text
    assert "Nothing is known yet" in look(kept, id_).text


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"label=MEL&label=NV&confirmed_by=histopathology&date=2026-01-01", None, 422),
        (b"label=%ff&confirmed_by=histopathology&date=2026-01-01", None, 422),
        (b"\xff\xfe", None, 422),
        (b"&".join([b"a=b"] * 1000), None, 422),
        (b'{"label": "MEL"}', "application/json", 415),
        (b"label=MEL", "multipart/form-data; boundary=x", 415),
    ],
)
def test_what_no_page_of_ours_sends_is_refused(kept, picture, body, kind, status):
    _, id_ = ask(kept, picture)
    headers = {"Content-Type": kind or "application/x-www-form-urlencoded", **HTML}
    assert kept.client.post(f"/diagnoses/{id_}", content=body, headers=headers).status_code == status
    assert "Nothing is known yet" in look(kept, id_).text


def test_whose_answer_it_is_not_sees_and_gives_nothing(kept, registry, picture):
    keys = {
        name: registry.create_key(name, scopes=scopes)[1]
        for name, scopes in {
            "app": ("diagnose", "outcome"),
            "other": ("diagnose", "outcome"),
            "asks": ("diagnose",),
            "ward": ("outcome", "operate"),
        }.items()
    }

    def as_(name):
        return {"auth": ("anybody", keys[name])}

    kept.eventually(lambda: kept.client.get("/", headers=HTML).status_code == 401)
    kept.eventually(lambda: kept.client.get("/operator", headers=HTML, **as_("ward")).status_code == 200)
    answer, id_ = ask(kept, picture, **as_("app"))
    assert "outcome-form" in answer.text
    asked, _ = ask(kept, picture, **as_("asks"))
    assert "outcome-form" not in asked.text
    assert "/diagnoses" not in asked.text
    assert look(kept, id_).status_code == 401
    assert look(kept, id_).headers["www-authenticate"].startswith("Basic ")
    assert look(kept, id_, **as_("asks")).status_code == 403
    assert give(kept, id_, **as_("asks")).status_code == 403
    assert give(kept, id_, **as_("other")).status_code == 404
    theirs, nobodys = (look(kept, one, **as_("other")) for one in (id_, uuid.uuid4()))
    assert theirs.status_code == nobodys.status_code == 404
    assert re.sub("[0-9a-f-]{36}", "", theirs.text) == re.sub("[0-9a-f-]{36}", "", nobodys.text)
    assert "Nothing is known yet" in look(kept, id_, **as_("app")).text
    assert give(kept, id_, **as_("ward")).status_code == 303
    assert look(kept, id_, **as_("app")).text.count("told on") == 1


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}]
)
def test_another_sites_form_gives_none(kept, picture, headers):
    _, id_ = ask(kept, picture)
    assert give(kept, id_, headers=headers).status_code == 403
    assert "Nothing is known yet" in look(kept, id_).text
    assert give(kept, id_, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303  # the control


def test_a_page_loads_nothing_and_holds_nothing_of_a_person(kept, picture):
    answer, id_ = ask(kept, picture, data={"tone": "fitzpatrick 5"})
    page = look(kept, id_)
    assert page.headers["content-security-policy"] == PAGE_POLICY
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?://|<img|<script", page.text)
    assert "dark" in answer.text  # the answer itself says whom its version is for
    for personal in ("dark", "fitzpatrick", "Fitzpatrick", "lesion.jpg", "%"):
        assert personal not in page.text.replace("/assets/", "")

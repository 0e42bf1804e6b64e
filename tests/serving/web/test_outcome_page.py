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
FORM, REST = "application/x-www-form-urlencoded", b"&confirmed_by=histopathology&date=2026-01-01"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'outcomes.db'}"


@pytest.fixture
def kept(serve, registry, promote, bundle, dark, url):
    """A service that keeps answers for their outcomes."""
    promote(registry, bundle(), bundle(dark))
    with serve(outcomes_url=url) as service:
        yield service


def ask(service, picture, **options):
    """The page of an answer, and the answer's id."""
    answer = send(service, picture, **options)
    assert answer.status_code == 200
    return answer, answer.headers["x-request-id"]


def look(service, id_, **options):
    return service.client.get(f"/diagnoses/{id_}", headers=HTML, **options)


def give(service, id_, fields=MELANOMA, headers=None, **options):
    return service.client.post(
        f"/diagnoses/{id_}", data=fields, headers={**HTML, **(headers or {})}, **options
    )


def last_form(html):
    form = html[html.rindex('class="outcome-form"') :]
    return Texts(form[: form.index("</form>")])


def filled(html, choice, button):
    """What a browser sends of the last form, where a disease is chosen and a button pressed, no more."""
    form = last_form(html)
    assert choice in [one["value"] for one in form.all("input") if one["type"] == "radio"]
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
        rows = connection.exec_driver_sql("SELECT label, confirmed_by, key FROM outcomes").fetchall()
    assert rows == [(1, "dermatologist", None)]


@pytest.mark.parametrize("colour", [(250, 10, 10), (10, 250, 10), (10, 10, 250)])
def test_nothing_is_chosen_beforehand_whatever_was_answered(keeping, picture, colour):
    """The form of one answer is that of any other: the same order, and nothing checked."""
    files = {"image": ("lesion.png", picture("PNG", colour=colour, size=(64, 48)), "image/png")}
    answer = keeping.client.post("/", files=files, headers=HTML)
    page = look(keeping, answer.headers["x-request-id"])
    for html in (answer.text, page.text):
        form = last_form(html)
        offered = [one for one in form.all("input") if one["type"] == "radio"]
        assert [one["value"] for one in offered] == ["MEL", "NV", "AK"]
        assert not any("checked" in one or "selected" in one for one in offered)
        assert "autofocus" not in html
        unseen, *others = form.all("button")  # the Enter key presses the first button of a form
        assert unseen == {"class": "unseen", "aria-hidden": "true", "tabindex": "-1"}
        assert [one["value"] for one in others] == ["histopathology", "dermatologist", "follow-up"]
        assert form.text.count("malignant") == 1
    assert re.search(r"<details>\s*<summary><h3>What was answered", page.text)


def test_an_outcome_is_corrected_and_taken_back_on_the_page(keeping, picture):
    _, id_ = ask(keeping, picture)
    give(keeping, id_)
    assert give(keeping, id_, filled(look(keeping, id_).text, "AK", "follow-up")).status_code == 303
    text = look(keeping, id_).text
    assert "It does not stand any more." in text
    back = Texts(text[: text.index("outcome-form")])
    fields = {one["name"]: one["value"] for one in back.all("input")}
    assert fields["label"] == ""
    assert give(keeping, id_, fields).status_code == 303
    page = Texts(look(keeping, id_).text)
    assert {"Taken back", "Give the outcome"} <= set(page.words)
    assert page.text.count("It does not stand any more.") == 2


def test_where_another_picture_is_asked_for_no_outcome_is(keeping, picture):
    files = {"image": ("lesion.png", picture("PNG", size=(4, 4)), "image/png")}
    assert "outcome-form" not in keeping.client.post("/", files=files, headers=HTML).text


def test_an_older_page_overwrites_nothing(keeping, picture):
    _, id_ = ask(keeping, picture)
    empty = look(keeping, id_).text
    give(keeping, id_)
    seen = look(keeping, id_).text
    late = give(keeping, id_, filled(empty, "NV", "dermatologist"))
    assert late.status_code == 409
    assert "Another outcome is known" in Texts(late.text).words
    again = last_form(late.text).all("input")
    assert [one["value"] for one in again if "checked" in one] == ["NV"]
    assert [one["max"] for one in again if "max" in one] == [str(TODAY + timedelta(days=1))]
    assert give(keeping, id_, filled(seen, "AK", "dermatologist")).status_code == 303
    # The page of the refusal shows what is known now, so that it can be corrected.
    again = give(keeping, id_, filled(seen, "NV", "dermatologist"))
    assert again.status_code == 409
    assert give(keeping, id_, filled(again.text, "NV", "dermatologist")).status_code == 303


@pytest.mark.parametrize(
    ("changed", "status", "why"),
    [
        ({"label": "XYZ"}, 422, "valid: MEL, NV, AK"),
        ({"date": (TODAY + timedelta(days=3)).isoformat()}, 422, "in the future"),
        ({"label": None}, 422, "nothing was chosen"),
        ({"confirmed_by": None}, 422, "press the button of how it is known"),
        ({"label": ""}, 422, "no outcome of this answer to withdraw"),
        ({"instead_of": "9" * 30}, 422, "cannot be read"),
        ({"patient": "Erika Musterfrau"}, 422, "fields that its page has not"),
        ({"label": "<script>alert(1)</script>"}, 422, "&lt;script&gt;"),
        ({"label": "x" * 5000}, 413, "4,096 bytes"),
    ],
)
def test_a_wrong_outcome_is_refused_on_a_page(keeping, picture, changed, status, why):
    _, id_ = ask(keeping, picture)
    fields = {name: value for name, value in (MELANOMA | changed).items() if value is not None}
    answer = give(keeping, id_, fields)
    assert (answer.status_code, answer.headers["content-security-policy"]) == (status, PAGE_POLICY)
    assert why in answer.text
    assert "<script>alert" not in answer.text
    assert "Erika" not in answer.text
    assert "Nothing is known yet" in look(keeping, id_).text


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        pytest.param(b"label=MEL&label=NV" + REST, FORM, 422, id="two labels"),
        pytest.param(b"label=%ff" + REST, FORM, 422, id="a label that is not UTF-8"),
        pytest.param(b"\xff\xfe", FORM, 422, id="a form that is not ASCII"),
        pytest.param(b"&".join([b"a=b"] * 1000), FORM, 422, id="a thousand fields"),
        pytest.param(b'{"label": "MEL"}', "application/json", 415, id="JSON"),
        pytest.param(b"label=MEL", "multipart/form-data; boundary=x", 415, id="another kind of form"),
    ],
)
def test_what_no_page_of_ours_sends_is_refused(keeping, picture, body, kind, status):
    _, id_ = ask(keeping, picture)
    headers = {"Content-Type": kind, **HTML}
    assert keeping.client.post(f"/diagnoses/{id_}", content=body, headers=headers).status_code == status
    assert "Nothing is known yet" in look(keeping, id_).text


SCOPES = {
    "app": ("diagnose", "outcome"),
    "other": ("diagnose", "outcome"),
    "asks": ("diagnose",),
    "ward": ("outcome", "operate"),
}


def test_another_key_neither_sees_nor_gives_the_outcome_of_an_answer(kept, registry, picture):
    app, other, asks, ward = (
        {"auth": ("anybody", registry.create_key(name, scopes=scopes)[1])} for name, scopes in SCOPES.items()
    )
    kept.eventually(lambda: kept.client.get("/", headers=HTML).status_code == 401)
    kept.eventually(lambda: kept.client.get("/operator", headers=HTML, **ward).status_code == 200)
    answer, id_ = ask(kept, picture, **app)
    assert "outcome-form" in answer.text
    without_scope, _ = ask(kept, picture, **asks)
    assert "outcome-form" not in without_scope.text
    assert "/diagnoses" not in without_scope.text
    assert look(kept, id_).status_code == 401
    assert look(kept, id_).headers["www-authenticate"].startswith("Basic ")
    assert look(kept, id_, **asks).status_code == give(kept, id_, **asks).status_code == 403
    assert give(kept, id_, **other).status_code == 404
    theirs, unknown = (look(kept, one, **other) for one in (id_, uuid.uuid4()))
    assert theirs.status_code == unknown.status_code == 404
    assert re.sub("[0-9a-f-]{36}", "", theirs.text) == re.sub("[0-9a-f-]{36}", "", unknown.text)
    assert "Nothing is known yet" in look(kept, id_, **app).text
    assert give(kept, id_, **ward).status_code == 303
    assert look(kept, id_, **app).text.count("told on") == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
    ],
    ids=["another site", "another origin", "control"],
)
def test_another_sites_form_gives_none(keeping, picture, headers, status):
    _, id_ = ask(keeping, picture)
    assert give(keeping, id_, headers=headers).status_code == status
    assert ("Nothing is known yet" in look(keeping, id_).text) == (status == 403)


def test_a_page_loads_nothing_and_has_nothing_of_a_person(keeping, picture):
    answer, id_ = ask(keeping, picture, data={"tone": "fitzpatrick 5"})
    page = look(keeping, id_)
    assert page.headers["content-security-policy"] == PAGE_POLICY
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?://|<img|<script", page.text)
    assert "dark" in answer.text  # the answer itself says whom its version is for
    text = page.text.replace("/assets/", "")
    assert not [one for one in ("dark", "fitzpatrick", "Fitzpatrick", "lesion.jpg", "%") if one in text]

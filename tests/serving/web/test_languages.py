"""The language of a page: by its address, then by the browser; and that all of a page is in it."""

import pytest

from serving.inference import predictor
from serving.web.catalogue import catalogue
from serving.web.languages import accepted
from tests.case_bundles import case_bundle
from tests.serving.web.test_pages import HTML, Texts, send

TITLES = {
    "en": "Try a picture",
    "de": "Ein Bild prüfen",
    "fr": "Essayer une image",
    "es": "Probar una imagen",
}


@pytest.mark.parametrize(
    ("header", "language"),
    [
        *(("", "en"), ("de", "de"), ("de-AT,de;q=0.9,en;q=0.8", "de"), ("en-GB,de;q=0.9", "en")),
        *(("it,es;q=0.3,fr;q=0.7", "fr"), ("DE", "de"), ("*", "en"), ("it, pt", "en"), ("de;q=0", "en")),
        *(("de;q=0,fr;q=0.1", "fr"), ("de;q=x, es;q=0.1", "es"), ("de;q=nan,fr", "fr"), ("de;q=7,es", "es")),
        *((",;,=", "en"), ("it," * 100 + "de", "en"), ("fr;Q=0.5,es;q=0.4", "fr"), ("es ; q=1", "es")),
    ],
)
def test_what_the_browser_likes_best(header, language):
    assert accepted(header) == language


@pytest.mark.parametrize("language", TITLES)
def test_a_page_is_in_the_language_of_the_browser(service, language):
    answer = service.client.get("/", headers={**HTML, "Accept-Language": f"{language};q=0.9"})
    assert answer.headers["content-language"] == language
    assert answer.headers["vary"] == "Accept-Language"
    assert "set-cookie" not in answer.headers
    page = Texts(answer.text)
    assert page.all("html") == [{"lang": language}]
    assert TITLES[language] in page.words
    current = [one for one in page.all("a") if one.get("aria-current") == "true"]
    assert [one["lang"] for one in current] == [language]


def test_the_address_comes_before_the_browser_and_is_kept(service, picture):
    answer = send(service, picture, params={"lang": "fr"}, headers={"Accept-Language": "de"})
    page = Texts(answer.text)
    assert answer.headers["content-language"] == "fr"
    assert page.all("form")[0]["action"] == "/?lang=fr"
    assert "/?lang=fr" in [one["href"] for one in page.all("a")]


@pytest.mark.parametrize("named", ["it", "", "de-AT", "../de", "DE "])
def test_a_language_that_there_is_not_is_passed_over(service, named):
    answer = service.client.get("/", params={"lang": named}, headers={**HTML, "Accept-Language": "es"})
    assert answer.headers["content-language"] == ("de" if named.strip().lower() == "de" else "es")


def test_programs_are_answered_in_english(service, picture):
    german = {"Accept-Language": "de"}
    told = service.diagnose(picture(size=(64, 48)), headers=german, params={"skin_tone": "V"}).json()
    assert any("was declared" in reason["text"] for reason in told["reasons"])
    assert told["disclaimer"].startswith("Research software")
    refused = service.diagnose(b"nothing", headers=german)
    assert refused.json()["title"] == "Not an image"
    assert '<html lang="en">' in service.client.get("/operator", headers={**HTML, **german}).text


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_an_answer_is_told_in_the_language_of_the_page(service, picture, language):
    told = service.diagnose(picture(size=(64, 48)), params={"skin_tone": "V"}).json()
    answer = send(service, picture, data={"tone": "fitzpatrick 5"}, headers={"Accept-Language": language})
    page = Texts(answer.text)
    english = [*told["warnings"], *(one["text"] for one in told["reasons"]), told["disclaimer"]]
    assert not [one for one in english if one in page.text]
    melanoma = {"de": "Melanom", "fr": "Mélanome", "es": "Melanoma"}[language]
    assert melanoma in page.words or f"{melanoma} " in page.words


def test_quality_issues_are_told_in_the_language_of_the_page(service, picture):
    answer = send(service, lambda **_: picture(size=(6, 6)), headers={"Accept-Language": "de"})
    assert "Das Bild hat 6 x 6 Pixel; das Modell sieht 8 x 8 an." in Texts(answer.text).text


def test_a_case_is_told_in_the_language_of_the_page(serve, registry, promote, picture):
    promote(registry, case_bundle())
    with serve() as service:
        files = {"close_up": ("a.jpg", picture(size=(64, 48)), "image/jpeg")}
        facts = {"age": "70", "site": "head_neck"}
        headers = {**HTML, "Accept-Language": "de"}
        page = Texts(service.client.post("/", files=files, data=facts, headers=headers).text)
        refused = service.client.post("/", files=files, data={"age": "700"}, headers=headers)
    assert "eine Nahaufnahme Alter: 70 Körperstelle: Kopf oder Hals" in page.text
    assert "Ein dermatoskopisches Bild : in der Kalibrierung 0,6 weniger" in page.text
    assert "Alter (Jahre)" in page.words
    assert "Alter 700 liegt außerhalb der Grenzen" in Texts(refused.text).text


def test_a_problem_is_told_in_the_language_of_the_page(service):
    files = {"image": ("lesion.jpg", b"no picture at all", "image/jpeg")}
    answer = service.client.post("/", files=files, headers={**HTML, "Accept-Language": "de"})
    assert (answer.status_code, answer.headers["content-language"]) == (400, "de")
    page = Texts(answer.text)
    assert "Kein Bild" in page.words
    assert "17 Byte, die kein Bild sind" in page.text
    assert page.all("p") == [one for one in page.all("p") if "lang" not in one]


def test_what_a_phone_sends_is_told_with_what_to_do(service):
    files = {"image": ("lesion.jpg", bytes(4) + b"ftypheic" + bytes(40), "image/jpeg")}
    answer = service.client.post("/", files=files, headers={**HTML, "Accept-Language": "de"})
    assert "das Bild ist HEIC und wird so nicht gelesen" in answer.text
    assert "stellen Sie das Telefon auf das kompatibelste Format ein" in answer.text


def test_a_sentence_without_a_translation_is_marked_as_english(service, picture, monkeypatch):
    monkeypatch.setattr(predictor, "tone_warnings", lambda *_: ["Something that nobody has translated."])
    for language, marked in (("de", True), ("en", False)):
        html = send(service, picture, headers={"Accept-Language": language}).text
        assert ('<li lang="en">Something that nobody has translated.</li>' in html) == marked
        assert html.count('<li lang="en">') == marked


def test_a_detail_without_a_translation_is_marked_and_explained(service):
    with_a_preamble = b"some" + bytes(124) + b"DICM" + bytes(40)
    files = {"image": ("lesion.dcm", with_a_preamble, "application/dicom")}
    answer = service.client.post("/", files=files, headers={**HTML, "Accept-Language": "de"})
    page = Texts(answer.text)
    assert {"class": "said", "lang": "en"} in page.all("p")
    assert "Senden Sie das Foto als JPEG-, PNG- oder WebP-Datei" in page.text


def test_what_a_sender_wrote_is_never_a_template_or_markup(service, picture):
    hostile = {"tone": "fitzpatrick {n}<script>"}
    for language in ("en", "de"):
        answer = send(service, picture, data=hostile, headers={"Accept-Language": language})
        assert answer.status_code == 422
        assert "{n}&lt;script&gt;" in answer.text
    assert catalogue("de").say("{n}") == "{n}"

"""An outcome is given in headless Chromium: two clicks, with and without a script, by keyboard; with axe."""

import pytest

from tests.serving.conftest import Places, draw_bundle, release, running
from tests.serving.web.conftest import ask
from tests.serving.web.test_in_a_browser import SEEN, grave

pytestmark = pytest.mark.browser

BUTTON = ".outcome-form button[value=histopathology]"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The service of these tests, which keeps answers."""
    folder = tmp_path_factory.mktemp("kept")
    places = Places(folder)
    with places.open() as registry:
        release(registry, draw_bundle())
    with running(places.open, outcomes_url=f"sqlite:///{folder / 'outcomes.db'}") as started:
        yield started


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_two_clicks_give_the_outcome_of_an_answer(tab, lesion, script):
    page = tab(java_script_enabled=script)
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("#answer")
    assert page.locator(".outcome-form input:checked").count() == 0
    page.click(".outcome-form input[value=NV]")
    page.click(BUTTON)
    page.wait_for_selector(".history")
    assert "Melanocytic naevus" in page.inner_text(".history")
    assert page.locator(".outcome-form input:checked").count() == 0
    assert page.locator("details[open]").count() == 0
    page.click("text=Take it back")
    page.wait_for_selector(".history :text('Taken back')")
    assert page.said == []


def test_nothing_is_sent_without_a_choice_and_the_enter_key_says_not_how_it_is_known(tab, lesion):
    page = tab()
    ask(page, lesion, "")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.click(BUTTON)
    page.focus("#outcome-date")
    page.keyboard.press("Enter")
    assert sent == []  # nothing is chosen
    for field in (".outcome-form input[value=NV]", "#outcome-date"):
        page.check(".outcome-form input[value=NV]")
        page.focus(field)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert "press the button of how it is known" in page.inner_text(".trouble")
        assert page.is_checked(".outcome-form input[value=NV]")
        assert "Nothing is known yet" in page.inner_text("main")
    page.focus(BUTTON)
    page.keyboard.press("Enter")
    page.wait_for_selector(".history")


@pytest.mark.parametrize(("viewport", "scheme"), SEEN)
def test_axe_finds_nothing_serious_and_a_phone_scrolls_no_page(tab, lesion, viewport, scheme):
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)
    found = []

    def looked():
        found.extend(grave(page))
        assert page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]

    page.goto("/")
    ask(page, lesion, "")
    looked()
    page.click(".outcome-form input[value=NV]")
    page.click(BUTTON)
    page.wait_for_selector(".history")
    page.click("summary")
    looked()
    page.evaluate("document.querySelector('#outcome-date').removeAttribute('max')")
    page.fill("#outcome-date", "2999-01-01")
    page.click(".outcome-form input[value=MEL]")
    page.click(BUTTON)
    page.wait_for_selector(".trouble")
    assert page.is_checked(".outcome-form input[value=MEL]")
    looked()
    page.goto("/diagnoses")
    looked()
    assert found == []

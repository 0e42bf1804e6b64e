"""What a clinician sees of an answer in headless Chromium: its picture beside it, and no other's."""

import re

import pytest

from tests.serving.web.conftest import PHONE, ask

pytestmark = pytest.mark.browser


def is_in_sight(page, selector):
    """Whether an element is within the window as it is scrolled."""
    return page.evaluate(
        """one => {
            const { top, bottom, height } = document.querySelector(one).getBoundingClientRect();
            return height > 0 && top >= 0 && bottom <= innerHeight;
        }""",
        selector,
    )


@pytest.fixture
def no_picture(tmp_path):
    """A file that says to be a picture and is none."""
    path = tmp_path / "no_picture.jpg"
    path.write_bytes(b"no picture")
    return path


def test_on_a_phone_the_picture_stays_in_sight(tab, lesion):
    page = tab(PHONE, is_mobile=True, has_touch=True)
    ask(page, lesion)
    assert is_in_sight(page, "#asked img")
    for part in (".figures", ".findings", ".answer > p:last-child"):
        page.locator(part).scroll_into_view_if_needed()
        assert is_in_sight(page, "#asked img"), part
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


def test_an_error_keeps_what_was_chosen_and_takes_the_answer_away(tab, lesion, no_picture):
    page = tab()
    ask(page, lesion, "fitzpatrick 5")
    page.set_input_files("#image", str(no_picture))
    assert page.locator(".answer").count() == 0  # it is of another picture
    page.click("#submit")
    page.wait_for_selector("#trouble :text('Not an image')")
    assert page.evaluate("document.querySelector('#image').files[0].name") == "no_picture.jpg"
    assert page.input_value("#tone") == "fitzpatrick 5"
    assert page.evaluate("document.querySelector('#trouble').contains(document.activeElement)")
    assert page.get_attribute("#trouble", "role") == "alert"
    assert page.is_enabled("#submit")
    assert page.locator("#preview-image").is_hidden()  # the browser finds no picture either
    ask(page, lesion, "fitzpatrick 5")
    assert page.locator("#trouble h3").count() == 0


def test_a_service_that_is_gone_keeps_what_was_chosen(tab, lesion):
    page = tab()
    page.goto("/")
    page.route("**/*", lambda route: route.abort())
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("#trouble :text('The service did not answer')")
    assert page.evaluate("document.querySelector('#image').files[0].name") == lesion.name
    assert page.inner_text("#submit") == "Ask"


def pages_of(page):
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))


def test_paper_has_picture_answer_version_time_and_limits_on_one_page(tab, lesion):
    page = tab()
    page.goto("/")
    ask(page, lesion)
    page.emulate_media(media="print")
    assert page.locator("#asked img").is_visible()
    for part in (".decision", ".figures", ".findings", ".answer time", "footer"):
        assert page.locator(part).is_visible(), part
    assert page.locator(".ask").is_hidden()
    assert pages_of(page) == 1

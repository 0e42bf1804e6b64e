"""The pages in headless Chromium: upload, answer, operator; with and without a script; checked by axe."""

import pytest

from tests.case_bundles import case_bundle
from tests.serving.conftest import Places, release, running
from tests.serving.web.conftest import PHONE, SCREEN, ask

pytestmark = pytest.mark.browser


def test_a_picture_is_chosen_shown_and_answered(tab, service, lesion):
    page = tab()
    assert page.locator("#preview-image").is_hidden()
    page.set_input_files("#image", str(lesion))
    page.wait_for_function("document.querySelector('#preview-image img').naturalWidth === 320")
    ask(page, lesion)
    assert page.locator("#preview-image img").is_visible()  # still beside the answer
    assert page.evaluate("document.activeElement.id") == "answer"
    assert page.input_value("#tone") == "fitzpatrick 5"
    assert "version 3 (dark)" in page.inner_text(".answer")
    ask(page, lesion, "")
    assert "(global)" in page.inner_text(".answer")
    assert all(url.startswith((service.url, f"blob:{service.url}")) for url in page.asked)
    assert page.said == []


def test_what_is_no_page_of_ours_is_left_to_the_browser(tab, lesion):
    """A proxy may have a limit of its own, and says so in words of its own."""
    page = tab()
    page.route("**/", lambda route: route.fulfill(status=413, content_type="text/html", body="<h1>No.</h1>"))
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("text=No.")


def test_our_own_form_says_where_it_comes_from(tab, service, lesion):
    """Over plain HTTP that is all a browser says; a policy of no-referrer would make it `null`."""
    page = tab(java_script_enabled=False)
    page.set_input_files("#image", str(lesion))
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.click("#submit")
    page.wait_for_selector("#answer")
    assert sent.value.all_headers()["origin"] == service.url


def test_it_works_without_a_script(tab, lesion):
    page = tab(java_script_enabled=False)
    page.set_input_files("#image", str(lesion))
    page.select_option("#tone", "fitzpatrick 1")
    page.click("#submit")
    assert "version 2 (light)" in page.inner_text(".answer")
    assert page.locator("#preview-image").is_hidden()


def grave(page):
    """What axe finds serious or worse on a page, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    return [
        f"{page.url}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in axe.run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


SEEN = [
    pytest.param(viewport, scheme, id=f"{name}-{scheme}")
    for name, viewport in (("screen", SCREEN), ("phone", PHONE))
    for scheme in ("light", "dark")
]


@pytest.mark.parametrize(("viewport", "scheme"), SEEN)
def test_axe_finds_nothing_serious_about_an_answer(tab, lesion, viewport, scheme):
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)  # axe itself is a script
    page.goto("/")
    found = grave(page)
    ask(page, lesion)
    assert found + grave(page) == []


@pytest.mark.parametrize("path", ["/operator", "/docs", "/v1/models/skin-lesion/card", "/console"])
@pytest.mark.parametrize(("viewport", "scheme"), [SEEN[0], SEEN[3]])
def test_axe_finds_nothing_serious_about_any_page(tab, path, viewport, scheme):
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)
    page.goto(path)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert grave(page) == []


def test_a_keyboard_reaches_everything(tab):
    page = tab()
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[:1] == ["Skip to the content"]
    assert {"image", "tone", "submit"} <= set(reached)


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory):
    """The service with a model that takes cases."""
    places = Places(tmp_path_factory.mktemp("cases"))
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as started:
        yield started


@pytest.mark.parametrize("viewport", [SCREEN, PHONE], ids=["screen", "phone"])
def test_a_case_is_given_and_answered(chromium, of_cases, lesion, viewport):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    context = chromium.new_context(viewport=viewport, base_url=of_cases.url, bypass_csp=True)
    page = context.new_page()
    page.goto("/")
    found = axe.run(page).response["violations"]
    page.set_input_files("#close_up", str(lesion))
    page.fill("#age", "70")
    page.select_option("#site", "trunk")
    page.click("#submit")
    page.wait_for_selector("#answer")
    text = page.inner_text(".answer")
    assert "age: 70" in text
    assert "A dermoscopic picture: in calibration 0.6 fewer classes" in text
    assert page.input_value("#age") == "70"
    assert page.input_value("#site") == "trunk"
    assert page.locator("#preview-close_up img").is_visible()
    assert page.locator("#preview-dermoscopic").is_hidden()
    page.evaluate("document.querySelector('#answer').removeAttribute('id')")
    page.set_input_files("#dermoscopic", str(lesion))
    page.click("#submit")
    page.wait_for_selector("#answer")
    assert "one and the same file" in page.inner_text(".answer")
    found += axe.run(page).response["violations"]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    context.close()
    assert not [one for one in found if one["impact"] in ("serious", "critical")], found

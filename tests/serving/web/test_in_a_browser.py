"""The pages in headless Chromium: upload, answer, outcome, operator; with and without a script; with axe."""

import re

import pytest

from tests.case_bundles import case_bundle
from tests.serving.conftest import Places, draw_bundle, release, running

pytestmark = pytest.mark.browser

SCREEN, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = [
    pytest.param(viewport, scheme, id=f"{name}-{scheme}")
    for name, viewport in (("screen", SCREEN), ("phone", PHONE))
    for scheme in ("light", "dark")
]
HOW_KNOWN = ".outcome-form button[value=histopathology]"


@pytest.fixture
def tab(chromium, service):
    """`tab(viewport, **options)`: a tab on `/`; `asked` are its requests, `said` its complaints."""
    contexts = []

    def show(viewport=SCREEN, service=service, **options):
        context = chromium.new_context(viewport=viewport, base_url=service.url, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.asked, tab.said = [], []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.goto("/")
        return tab

    yield show
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def with_outcomes(tmp_path_factory):
    """A service that keeps answers for their outcomes."""
    folder = tmp_path_factory.mktemp("kept")
    with Places(folder).open() as registry:
        release(registry, draw_bundle())
    with running(Places(folder).open, outcomes_url=f"sqlite:///{folder / 'outcomes.db'}") as started:
        yield started


@pytest.fixture(scope="module")
def of_cases(tmp_path_factory):
    """A service with a model that takes cases."""
    places = Places(tmp_path_factory.mktemp("cases"))
    with places.open() as registry:
        release(registry, case_bundle())
    with running(places.open) as started:
        yield started


@pytest.fixture
def lesion(picture, tmp_path):
    """A file to choose."""
    path = tmp_path / "lesion.jpg"
    path.write_bytes(picture(size=(320, 240)))
    return path


def ask(tab, file, tone="fitzpatrick 5", field="#image"):
    tab.set_input_files(field, str(file))
    if field == "#image":
        tab.select_option("#tone", tone)
    tab.evaluate("document.querySelector('#answer')?.removeAttribute('id')")  # that of the picture before
    tab.click("#submit")
    tab.wait_for_selector("#answer")


def chosen_file(page):
    return page.evaluate("document.querySelector('#image').files[0].name")


def is_in_sight(page, selector):
    """Whether an element is within the window as it is scrolled."""
    return page.evaluate(
        """one => {
            const { top, bottom, height } = document.querySelector(one).getBoundingClientRect();
            return height > 0 && top >= 0 && bottom <= innerHeight;
        }""",
        selector,
    )


def is_wider_than(page, viewport):
    return page.evaluate("document.scrollingElement.scrollWidth") > viewport["width"]


def serious(page):
    """What axe finds serious or worse on a page, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    return [
        f"{page.url}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in axe.run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_a_picture_is_chosen_shown_and_answered(tab, service, lesion):
    page = tab()
    assert page.locator("#preview-image").is_hidden()
    page.set_input_files("#image", str(lesion))
    page.wait_for_function("document.querySelector('#preview-image img').naturalWidth === 320")
    ask(page, lesion)
    assert page.locator("#preview-image img").is_visible()  # still next to the answer
    assert page.evaluate("document.activeElement.id") == "answer"
    assert page.input_value("#tone") == "fitzpatrick 5"
    assert "version 3 (dark)" in page.inner_text(".answer")
    ask(page, lesion, "")
    assert "(global)" in page.inner_text(".answer")
    assert all(url.startswith((service.url, f"blob:{service.url}")) for url in page.asked)
    assert page.said == []


def test_it_works_without_a_script_and_says_where_the_form_comes_from(tab, service, lesion):
    page = tab(java_script_enabled=False)
    page.set_input_files("#image", str(lesion))
    page.select_option("#tone", "fitzpatrick 1")
    with page.expect_request(lambda request: request.method == "POST") as sent:
        page.click("#submit")
    assert "version 2 (light)" in page.inner_text(".answer")
    assert page.locator("#preview-image").is_hidden()
    # Over plain HTTP that is all a browser says; a policy of no-referrer would make it `null`.
    assert sent.value.all_headers()["origin"] == service.url


def test_a_foreign_page_is_left_to_the_browser(tab, lesion):
    """A proxy may have a limit of its own, and its own words for it."""
    page = tab()
    page.route("**/", lambda route: route.fulfill(status=413, content_type="text/html", body="<h1>No.</h1>"))
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("text=No.")


def test_an_error_keeps_what_was_chosen_and_takes_the_answer_away(tab, lesion, tmp_path):
    no_picture = tmp_path / "no_picture.jpg"
    no_picture.write_bytes(b"no picture")
    page = tab()
    ask(page, lesion)
    page.set_input_files("#image", str(no_picture))
    assert page.locator(".answer").count() == 0  # it is of another picture
    page.click("#submit")
    page.wait_for_selector("#trouble :text('Not an image')")
    assert chosen_file(page) == "no_picture.jpg"
    assert page.input_value("#tone") == "fitzpatrick 5"
    assert page.evaluate("document.querySelector('#trouble').contains(document.activeElement)")
    assert page.get_attribute("#trouble", "role") == "alert"
    assert page.is_enabled("#submit")
    assert page.locator("#preview-image").is_hidden()  # the browser finds no picture either
    ask(page, lesion)
    assert page.locator("#trouble h3").count() == 0


def test_a_service_that_is_gone_keeps_what_was_chosen(tab, lesion):
    page = tab()
    page.route("**/*", lambda route: route.abort())
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("#trouble :text('The service did not answer')")
    assert chosen_file(page) == lesion.name
    assert page.inner_text("#submit") == "Ask"


def test_on_a_phone_the_picture_stays_in_sight(tab, lesion):
    page = tab(PHONE, is_mobile=True, has_touch=True)
    ask(page, lesion)
    assert is_in_sight(page, "#asked img")
    for part in (".figures", ".findings", ".answer > p:last-child"):
        page.locator(part).scroll_into_view_if_needed()
        assert is_in_sight(page, "#asked img"), part
    assert not is_wider_than(page, PHONE)


def test_paper_has_picture_answer_version_time_and_limits_on_one_page(tab, lesion):
    page = tab()
    ask(page, lesion)
    page.emulate_media(media="print")
    for part in ("#asked img", ".decision", ".figures", ".findings", ".answer time", "footer"):
        assert page.locator(part).is_visible(), part
    assert page.locator(".ask").is_hidden()
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 1


def test_a_keyboard_reaches_everything(tab):
    page = tab()
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached[:1] == ["Skip to the content"]
    assert {"image", "tone", "submit"} <= set(reached)


@pytest.mark.parametrize(("viewport", "scheme"), LOOKS)
def test_axe_finds_nothing_serious_about_an_answer(tab, lesion, viewport, scheme):
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)  # axe itself is a script
    found = serious(page)
    ask(page, lesion)
    assert found + serious(page) == []


@pytest.mark.parametrize("path", ["/operator", "/docs", "/v1/models/skin-lesion/card", "/console"])
@pytest.mark.parametrize(("viewport", "scheme"), [LOOKS[0], LOOKS[3]])
def test_axe_finds_nothing_serious_about_any_page(tab, path, viewport, scheme):
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)
    page.goto(path)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert serious(page) == []


@pytest.mark.parametrize("viewport", [SCREEN, PHONE], ids=["screen", "phone"])
def test_a_case_is_given_and_answered(tab, of_cases, lesion, viewport):
    page = tab(viewport, of_cases, bypass_csp=True)
    found = serious(page)
    page.fill("#age", "70")
    page.select_option("#site", "trunk")
    ask(page, lesion, field="#close_up")
    text = page.inner_text(".answer")
    assert "age: 70" in text
    assert "A dermoscopic picture: in calibration 0.6 fewer classes" in text
    assert (page.input_value("#age"), page.input_value("#site")) == ("70", "trunk")
    assert page.locator("#preview-close_up img").is_visible()
    assert page.locator("#preview-dermoscopic").is_hidden()
    ask(page, lesion, field="#dermoscopic")
    assert "one and the same file" in page.inner_text(".answer")
    assert not is_wider_than(page, viewport)
    assert found + serious(page) == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_two_clicks_give_the_outcome_of_an_answer(tab, with_outcomes, lesion, script):
    page = tab(service=with_outcomes, java_script_enabled=script)
    page.set_input_files("#image", str(lesion))
    page.click("#submit")
    page.wait_for_selector("#answer")
    assert page.locator(".outcome-form input:checked").count() == 0
    page.click(".outcome-form input[value=NV]")
    page.click(HOW_KNOWN)
    page.wait_for_selector(".history")
    assert "Melanocytic naevus" in page.inner_text(".history")
    assert page.locator(".outcome-form input:checked").count() == 0
    assert page.locator("details[open]").count() == 0
    page.click("text=Take it back")
    page.wait_for_selector(".history :text('Taken back')")
    assert page.said == []


def test_nothing_is_sent_without_a_choice_and_the_enter_key_says_not_how_it_is_known(
    tab, with_outcomes, lesion
):
    page = tab(service=with_outcomes)
    ask(page, lesion, "")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.click(HOW_KNOWN)
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
    page.focus(HOW_KNOWN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".history")


@pytest.mark.parametrize(("viewport", "scheme"), LOOKS)
def test_axe_finds_nothing_serious_about_outcomes(tab, with_outcomes, lesion, viewport, scheme):
    page = tab(viewport, with_outcomes, color_scheme=scheme, bypass_csp=True)
    found = []

    def look():
        found.extend(serious(page))
        assert not is_wider_than(page, viewport)

    ask(page, lesion, "")
    look()
    page.click(".outcome-form input[value=NV]")
    page.click(HOW_KNOWN)
    page.wait_for_selector(".history")
    page.click("summary")
    look()
    page.evaluate("document.querySelector('#outcome-date').removeAttribute('max')")
    page.fill("#outcome-date", "2999-01-01")
    page.click(".outcome-form input[value=MEL]")
    page.click(HOW_KNOWN)
    page.wait_for_selector(".trouble")
    assert page.is_checked(".outcome-form input[value=MEL]")
    look()
    page.goto("/diagnoses")
    look()
    assert found == []

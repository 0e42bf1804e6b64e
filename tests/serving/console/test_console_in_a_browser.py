"""The console in headless Chromium."""

import pytest

from registry.bundle.manifest.schema import Subgroup
from tests.serving.conftest import draw_bundle
from tests.serving.console.conftest import LONG, figures

pytestmark = pytest.mark.browser

SCREEN, PHONE = {"width": 1400, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture
def tab(chromium, desk):
    """`tab(viewport, **options)`: a tab of a browser; `sent` is all that leaves it, `said` its complaints."""
    contexts = []

    def show(viewport=SCREEN, **options):
        context = chromium.new_context(viewport=viewport, base_url=desk.service.url, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.sent, tab.said = [], []
        tab.on("request", lambda request: tab.sent.append((request.url, request.post_data or "")))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto("/console")
        return tab

    yield show
    for context in contexts:
        context.close()


def choose(page, *values):
    for place, value in enumerate(values, 1):
        page.select_option(f"#choose-{place}", value)
    page.evaluate("document.querySelector('#compared')?.remove()")
    page.click("#compare")
    page.wait_for_selector("#compared")


def test_it_compares_without_a_script(tab):
    page = tab(java_script_enabled=False)
    page.select_option("#choose-1", "1")
    page.click("#compare")
    assert "nothing runs → versions 1" in page.inner_text("#compared")


@pytest.mark.parametrize("viewport", [SCREEN, PHONE], ids=["screen", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_a_phone_does_not_scroll_the_page(tab, desk, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    long = Subgroup(name=LONG, scale="monk", values=("10",))
    desk.registry.signed_by(desk.people("olga").signatory).add(
        [draw_bundle(long, metrics=figures(**{LONG: 90}))]
    )
    page = tab(viewport, color_scheme=scheme, bypass_csp=True)  # axe itself is a script
    desk.vouch(1, 4, 2)
    choose(page, "1", "4", "2")
    found = axe.run(page).response["violations"]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= viewport["width"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not grave, "\n".join(
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in grave
    )

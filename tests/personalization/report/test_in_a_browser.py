"""The report as a browser shows it: on a screen, a phone and paper, in light and dark, checked by axe."""

import pytest

pytestmark = pytest.mark.browser

SCREEN, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# A4 less the margins of the style sheet, in CSS pixels of 1/96 inch.
PAPER = {"width": round((210 - 28) / 25.4 * 96), "height": round((297 - 28) / 25.4 * 96)}


@pytest.fixture
def shown(chromium, page, tmp_path):
    """`shown(viewport, **options)`: the report in a tab, all that can be opened opened."""
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    contexts = []

    def show(viewport, **options):
        context = chromium.new_context(viewport=viewport, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.asked = []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.goto(file.as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
        return tab

    yield show
    for context in contexts:
        context.close()


@pytest.mark.parametrize("viewport", [SCREEN, PHONE], ids=["screen", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown, viewport, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()

    results = axe.run(shown(viewport, color_scheme=scheme))

    assert results.response["testEngine"]["name"] == "axe-core"
    grave = [found for found in results.response["violations"] if found["impact"] in ("serious", "critical")]
    assert not grave, "\n".join(
        f"{found['id']}: {found['help']}: {found['nodes'][0]['html'][:200]}" for found in grave
    )


def test_axe_would_find_something(shown):
    """The same check on a page that was made worse: grey on white, and a figure without words."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    tab = shown(SCREEN)
    tab.add_style_tag(content=":root { --muted: #c0c0c0 !important; }")
    tab.evaluate("document.querySelector('figure svg').removeAttribute('aria-label')")

    found = {violation["id"] for violation in axe.run(tab).response["violations"]}

    assert {"color-contrast", "svg-img-alt"} <= found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_tables_and_not_the_page(shown, scheme):
    tab = shown(PHONE, color_scheme=scheme, is_mobile=True, has_touch=True)

    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    wide = tab.evaluate(
        """() => [...document.querySelectorAll('main *')]
            .filter(of => of.scrollWidth > of.clientWidth + 1 && getComputedStyle(of).overflowX === 'auto')
            .map(of => [of.className, of.tabIndex, of.getAttribute('aria-label')])"""
    )
    assert wide, "no table is wide enough to show that it scrolls"
    assert all(name == "scroll" and index == 0 and label for name, index, label in wide)


LONG = "hospital_of_a_very_long_name_without_any_space_in_it_at_all"


@pytest.mark.parametrize("name", ["light", LONG], ids=["names of the job", "a long name"])
def test_on_a_narrow_screen_nothing_is_cut_and_every_table_scrolls_to_its_end(shown, name):
    tab = shown({"width": 400, "height": 900})
    tab.set_content(tab.content().replace(">light<", f">{name}<"))
    assert name in tab.content()

    over = tab.evaluate(
        """() => [...document.querySelectorAll('body *')]
            .filter(of => !of.closest('table') && !of.closest('svg'))
            .filter(of => of.getBoundingClientRect().right > innerWidth + 1)
            .map(of => of.outerHTML.slice(0, 100))"""
    )
    assert not over
    hidden = tab.evaluate(
        """() => [...document.querySelectorAll('.scroll')].filter(box => {
            box.scrollLeft = box.scrollWidth;
            const head = box.querySelector('thead tr'), shown = box.getBoundingClientRect();
            const first = head.firstElementChild.getBoundingClientRect();
            const last = head.lastElementChild.getBoundingClientRect();
            return last.right > shown.right + 1 || last.right > innerWidth || last.left < first.right - 1;
        }).map(box => box.getAttribute('aria-label'))"""
    )
    assert not hidden


def test_letters_in_figures_can_be_read_on_a_phone(shown):
    tab = shown(PHONE)

    heights = tab.evaluate(
        """() => [...document.querySelectorAll('figure svg')].map(svg => Math.min(
            ...[...svg.querySelectorAll('text')].map(text => parseFloat(getComputedStyle(text).fontSize)
                * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)))"""
    )
    assert min(heights) >= 7.5


def test_on_paper_nothing_is_cut_off(shown):
    tab = shown(PAPER, color_scheme="dark")
    tab.emulate_media(media="print")

    assert tab.evaluate("document.scrollingElement.scrollWidth") <= PAPER["width"]
    figures = tab.evaluate(
        """() => [...document.querySelectorAll('figure')]
            .filter(of => of.getClientRects().length)
            .map(of => [of.getBoundingClientRect().right, of.getBoundingClientRect().height,
                        getComputedStyle(of).breakInside])"""
    )
    assert len(figures) >= 15
    for right, height, breaks in figures:
        assert right <= PAPER["width"]
        assert height <= PAPER["height"]
        assert breaks == "avoid"
    tables = tab.evaluate(
        """() => [...document.querySelectorAll('table')].filter(of => of.getClientRects().length)
            .map(of => of.getBoundingClientRect().right)"""
    )
    assert max(tables) <= PAPER["width"]


def test_paper_is_white_and_ink_is_dark_even_where_the_screen_is_dark(shown):
    tab = shown(SCREEN, color_scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")

    ground, ink = tab.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert (ground, ink) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)")
    assert tab.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_nothing_is_asked_for_beside_the_page_itself(shown):
    tab = shown(SCREEN)

    assert [url.rsplit("/", 1)[-1] for url in tab.asked] == ["report.html"]

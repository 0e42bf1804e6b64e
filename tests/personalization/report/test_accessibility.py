"""What can be told without a browser: names, order, contrast. `test_in_a_browser.py` asks a browser."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import personalization.report
from registry.bundle.text import PAGE_FOLDER as FOLDER
from tests.contrast import contrast
from tests.personalization.report.conftest import Outline

STYLE = "".join(
    path.read_text(encoding="utf-8")
    for path in (FOLDER / "base.css", Path(personalization.report.__file__).parent / "report.css")
)
TEXT_CONTRAST, GRAPHIC_CONTRAST = 4.5, 3.0  # WCAG 2.2, success criteria 1.4.3 and 1.4.11, level AA


@pytest.fixture
def outline(page):
    return Outline(page)


def test_every_figure_says_in_words_what_it_shows(outline):
    shown, decoration = [], []
    for attributes, within in outline.all("svg"):
        hidden = any(of.get("aria-hidden") == "true" for _, of in within)
        (decoration if hidden else shown).append(attributes)

    assert len(shown) >= 20
    assert decoration
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 20 for svg in shown)
    assert len({svg["aria-label"] for svg in shown}) == len(shown)


def test_every_table_has_a_caption_and_headers(page):
    for table in re.findall(r"<table.*?</table>", page, flags=re.DOTALL):
        assert table.count("<caption>") == 1
        head, body = table.split("</thead>")
        columns = re.findall(r'<th scope="col">(.*?)</th>', head)
        assert all(columns), f"a column without a name in {columns}"
        for row in re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL):
            assert len(re.findall(r'<th scope="row">.+?</th>', row)) == 1
            assert len(re.findall("<td", row)) == len(columns) - 1


def test_wide_tables_scroll_in_a_place_that_the_keyboard_reaches(outline):
    for _, within in outline.all("table"):
        _, place = within[-1]
        assert (place["class"], place["tabindex"], place["role"]) == ("scroll", "0", "region")
        assert place["aria-label"]


def test_headings_go_down_one_level_at_a_time(page):
    levels = [int(level) for level in re.findall(r"<h([1-6])", page)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_the_page_says_its_language_and_loads_nothing(page, outline):
    assert outline.all("html")[0][0]["lang"] == "en"
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    assert not re.search(r"url\((?!#)|@import", page)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _, _ in outline.tags}


def test_a_phone_is_not_kept_from_zooming(outline):
    viewport = next(of["content"] for of, _ in outline.all("meta") if of.get("name") == "viewport")

    assert "width=device-width" in viewport
    assert "maximum-scale" not in viewport
    assert "user-scalable" not in viewport


def palettes():
    """The colours of the style sheet for light, dark and print; the last two change what light says."""
    light, dark, paper = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    )
    return {"light": light, "dark": {**light, **dark}, "print": {**light, **paper}}


def test_contrast_is_measured_as_the_guidelines_say():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # the palest grey that passes


@pytest.mark.parametrize("name", ["light", "dark", "print"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_text_stands_out_from_its_ground(name, ground):
    palette = palettes()[name]

    for text in ("ink", "muted", "accent", "alert", "danger"):
        assert contrast(palette[text], palette[ground]) >= TEXT_CONTRAST, (text, palette[text])


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_lines_of_figures_stand_out_from_the_page(name):
    palette = palettes()[name]

    for series in (key for key in palette if key.startswith("series-")):
        assert contrast(palette[series], palette["paper"]) >= GRAPHIC_CONTRAST, (series, palette[series])

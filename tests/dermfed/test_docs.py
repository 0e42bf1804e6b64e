"""The documentation: every link leads somewhere, and the site is made without a warning."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Where a link into the page may lead."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page):
    for target in LINK.findall(FENCED.sub("", page.read_text())):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


def test_every_page_is_reached_from_the_first():
    """By the lists of the first page and of the decisions."""
    listed = set()
    for index in (DOCS / "index.md", DOCS / "decisions" / "index.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", index.read_text(), flags=re.DOTALL):
            for name in block.split():
                listed |= set(index.parent.glob(f"{name}.md")) if not name.startswith(":") else set()
    listed |= {DOCS / "index.md", DOCS / "decisions" / "index.md"}
    assert set(DOCS.rglob("*.md")) == listed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, made without a warning."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *options, "docs", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.long
def test_the_site_is_made_without_a_warning_and_loads_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    loads = re.compile(r"<(?:script|img|iframe)[^>]* src=\"(https?:[^\"]*)|<link[^>]* href=\"(https?:[^\"]*)")
    assert not [found for page in pages for found in loads.findall(page.read_text())]
    assert "malignan" in (site / "openapi.html").read_text()


def contrast(chromium, site, system, chosen, *, without_style=False):
    """How far the letters above a figure are from the page, of 255, where the reader chose a scheme."""
    context = chromium.new_context(color_scheme=system)
    tab = context.new_page()
    tab.goto((site / "results" / "README.html").as_uri())
    tab.evaluate(f"document.body.dataset.theme = '{chosen}'")
    if without_style:
        tab.evaluate("document.querySelector('link[href*=\"figures.css\"]').remove()")
    figure = tab.locator("article img").first
    figure.evaluate("image => image.decode()")
    seen = Image.open(io.BytesIO(figure.screenshot(animations="disabled"))).convert("L")
    context.close()
    page, title = seen.getpixel((0, 0)), seen.crop((0, 0, seen.width, seen.height // 12))
    return max(abs(page - point) for point in title.getextrema())


@pytest.mark.browser
@pytest.mark.parametrize(("system", "chosen"), [("light", "dark"), ("dark", "light")])
def test_a_figure_can_be_read_in_the_scheme_that_the_reader_chose(site, chromium, system, chosen):
    assert contrast(chromium, site, system, chosen) > 150
    assert contrast(chromium, site, system, chosen, without_style=True) < 60

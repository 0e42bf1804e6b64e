"""The pages of results: a figure first, tables that are there, and figures of the tables as they are."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(RESULTS.glob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Whether the figures in a folder are of their tables."""
    command = [sys.executable, "benchmarks/figures.py", "--check", "--folder", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_every_figure_is_of_its_table(tmp_path):
    done = check(RESULTS)
    assert done.returncode == 0, done.stderr
    changed = Path(shutil.copytree(RESULTS, tmp_path / "results"))
    table = changed / "tables" / "model-for-use.csv"
    table.write_text(table.read_text().replace("0.779", "0.879", 1))
    done = check(changed)
    assert done.returncode == 1
    assert re.search(r"not of their tables: \S*model-for-use.svg; run benchmarks/figures.py", done.stderr)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "README"], ids=lambda page: page.stem
)
def test_a_page_begins_with_its_question_and_a_figure(page):
    question, _, figure, *_ = page.read_text().splitlines()
    assert question.startswith("# ")
    assert question.endswith("?")
    assert figure.startswith("![")


def test_no_table_and_no_figure_is_left_lying():
    linked = {target for page in PAGES for target in LINK.findall(page.read_text())}
    drawn = set(re.findall(r'(?:table=|Figure\(\s*)"([^"]+)"', _script()))
    for path in [*RESULTS.glob("figures/*"), *RESULTS.glob("tables/*")]:
        name = path.relative_to(RESULTS).as_posix()
        assert name in linked or path.stem in drawn, name


def _script() -> str:
    return (ROOT / "benchmarks" / "figures.py").read_text()

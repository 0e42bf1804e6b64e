"""The map is true: every link leads to a file that defines what the link names, and every room is on it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "architecture.md"
LINKS = re.findall(r"\[`([\w./]+)`\]\(\.\./([\w./]+)\)", MAP.read_text())
ROOMS = ("clients", "personalization", "registry", "serving", "training")


def defined(path: Path) -> set[str]:
    """The functions and classes of a file."""
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize(("name", "path"), dict.fromkeys(LINKS))
def test_a_link_leads_to_what_it_names(name, path):
    place = ROOT / path
    if place.name == "__init__.py":
        assert place.parent == ROOT / name
        assert place.is_file()
    else:
        assert name in defined(place)


def test_all_links_are_of_that_kind():
    assert len(re.findall(r"\]\(", MAP.read_text())) == len(LINKS) > 50


@pytest.mark.parametrize("room", ROOMS)
def test_every_floor_of_a_room_is_on_the_drawing(room):
    drawing = MAP.read_text().split("```")[1]
    inside = {path.stem for path in (ROOT / room).iterdir() if (path / "__init__.py").is_file()}
    assert inside
    assert {name for name in inside if not re.search(rf"\b{name}\b", drawing)} <= {"bundle", "recipes"}


def test_the_readme_points_to_the_map():
    assert "(docs/architecture.md)" in (ROOT / "README.md").read_text()

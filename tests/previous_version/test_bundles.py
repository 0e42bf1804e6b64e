"""Bundles that the previous version released are read, and answer for a stored picture as they did."""

import json
import subprocess
import sys
from typing import Any

import pytest

from registry.bundle.folder import read_bundle
from tests.fixtures import PREVIOUS, ROOT
from tests.fixtures.making.checkout import pinned

FOLDER = PREVIOUS / "bundles"
SINCE = ("threshold", "above", "sensitivity", "specificity", "n")  # of `malignancy`, null without them
ANSWERS: dict[str, Any] = json.loads((FOLDER / "answers.json").read_text())


def figures(value: Any, path: str = "") -> dict[str, float]:
    """Every number of an answer by its place."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {
        place: figure for step, each in inner for place, figure in figures(each, f"{path}.{step}").items()
    }
    return found | ({path: float(value)} if isinstance(value, int | float) else {})


def words(value: Any) -> Any:
    """An answer without its numbers."""
    if isinstance(value, dict):
        return {key: words(each) for key, each in value.items()}
    if isinstance(value, list):
        return [words(each) for each in value]
    return None if isinstance(value, int | float) else value


# A group whose bundle counts no patients of a tone speaks for none of them: the dark one does no more.
@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "dark"])
def test_a_picture_gets_the_answer_that_it_got(name):
    picture = FOLDER / "picture.png"
    command = ["-m", "registry.bundle.diagnose", str(FOLDER / name), str(picture), "--skin-tone", "5"]
    answered = subprocess.check_output([sys.executable, *command], env=pinned(PYTHONPATH=str(ROOT)))
    answer = json.loads(answered)
    assert [answer["malignancy"].pop(key) for key in SINCE] == [None] * len(SINCE)
    assert words(answer) == words(ANSWERS[name])
    assert figures(answer) == pytest.approx(figures(ANSWERS[name]), rel=1e-5)


def test_models_are_known_by_the_names_that_they_had():
    assert set(ANSWERS) == {"dark", "global", "light"}
    listed = json.loads((PREVIOUS / "registry" / "expected.json").read_text())["sqlite"]["versions"]
    digests = {version["subgroup"]["name"]: version["digest"] for version in reversed(listed)}
    for name in ANSWERS:
        bundle = read_bundle(FOLDER / name)
        assert bundle.manifest.subgroup.name == name
        assert bundle.digest in {version["digest"] for version in listed}, digests

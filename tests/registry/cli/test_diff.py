import json

import pytest

from registry.bundle.manifest.schema import Lineage

pytestmark = pytest.mark.sqlite  # nothing here depends on the database
MODEL = "skin-lesion"


@pytest.fixture
def three(registry, bundle, dark, tested):
    """Versions 1 (global), 2 (dark, from 1) and 3 (global, of another seed)."""
    first = bundle(metrics=tested(dark=(0.7, 0.6, 0.8)))
    lineage = Lineage(
        job="sha256:" + "0" * 64, recipe="fedauto", seed=0, parent=first.digest, code_version="0.1.0"
    )
    own = bundle(dark, tested(dark=(0.9, 0.84, 0.95)), lineage=lineage)
    return registry.add([first, own, bundle(seed=1, metrics=tested(dark=(0.75, 0.65, 0.85)))])


def test_two_versions_in_json(command, three):
    found = json.loads(command("diff", MODEL, 1, 3, "--json").out)
    assert found["model"] == MODEL
    assert [found[side]["digest"] for side in ("before", "after")] == [three[0].digest, three[2].digest]
    assert found["changed"] == [{"what": "lineage.seed", "before": 0, "after": 1}]
    assert "lineage.job" in found["unchanged"]
    (figure,) = [one for one in found["figures"] if one["figure"] == "accuracy"]
    assert figure == {
        "part": "subgroup",
        "subgroup": "dark",
        "figure": "accuracy",
        "before": {"value": 0.7, "interval": [0.6, 0.8], "n": 200},
        "after": {"value": 0.75, "interval": [0.65, 0.85], "n": 200},
        "difference": pytest.approx(0.05),
        "overlap": True,
    }


@pytest.mark.usefixtures("three")
def test_the_parent_is_named_where_it_is_a_version(command):
    found = json.loads(command("diff", MODEL, 1, 2, "--json").out)
    assert (found["before"]["parent_version"], found["after"]["parent_version"]) == (None, 1)
    text = command("diff", MODEL, 1, 2).out
    assert "version 2 (dark) began from version 1" in text
    assert "apart" in text
    assert "+0.200" in text


@pytest.mark.usefixtures("three")
def test_a_page_for_people(command):
    ended = command("diff", MODEL, 1, 3)
    assert ended.code == 0
    assert ended.out.startswith("skin-lesion: version 1 (global) -> version 3 (global)\n")
    assert [line.split() for line in ended.out.splitlines() if line.startswith("lineage")] == [
        ["lineage.seed", "0", "1"]
    ]
    assert "0.700 (0.600 to 0.800), n 200" in ended.out
    same = command("diff", MODEL, 1, 1)
    assert "everything but figures is the same" in same.out


def test_versions_without_figures(command, registry, bundle):
    registry.add([bundle(metrics={}), bundle(metrics={}, seed=1)])
    assert "neither version has test figures" in command("diff", MODEL, 1, 2).out


@pytest.mark.usefixtures("three")
def test_a_version_that_is_not_there_is_told_the_nearest(command):
    ended = command("diff", MODEL, 1, 9)
    assert (ended.code, "no version 9" in ended.err) == (2, True)

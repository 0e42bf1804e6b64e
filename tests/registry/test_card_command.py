import json

import pytest

MODEL = "skin-lesion"
pytestmark = pytest.mark.sqlite  # nothing here depends on the database


@pytest.fixture
def added(command, folders, bundle, tested, dark):
    """`dermfed-registry` on a registry with a release of two versions, and another version."""
    bundles = [
        bundle(metrics=tested(light=0.9, dark=0.85)),
        bundle(dark, tested(dark=0.86)),
        bundle(seed=1, metrics=tested(light=0.7)),
    ]
    assert command("add", *folders(*bundles)).code == 0
    assert command("promote", MODEL, 1, 2, "--to", "production").code == 0
    return command


def test_a_bundle_that_is_in_no_registry_is_shown(command, folders, bundle, places):
    made = bundle()
    (folder,) = folders(made)
    (one,) = json.loads(command("card", folder, "--json").out)["versions"]
    assert (one["version"], one["registered"], one["digest"]) == (None, None, made.digest)
    assert "in no registry" in command("card", folder).out
    assert not places.database.exists()


def test_the_card_is_written_to_a_file(added, tmp_path):
    for options, name in (((), "card.html"), (("--json",), "card.json")):
        ended = added("card", MODEL, *options, "--out", tmp_path / name)
        assert (ended.code, ended.out, ended.err) == (0, "", "")
        assert (tmp_path / name).read_text(encoding="utf-8") == added("card", MODEL, *options).out

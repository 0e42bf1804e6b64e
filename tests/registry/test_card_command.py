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


def test_the_release_in_production_is_shown_unless_told_otherwise(added):
    page = added("card", MODEL)
    assert (page.code, page.err) == (0, "")
    assert page.out.startswith("<!doctype html>")
    card = json.loads(added("card", MODEL, "--json").out)
    assert (card["name"], card["release"], card["alias"]) == (MODEL, 1, "production")
    assert [one["version"] for one in card["versions"]] == [1, 2]
    assert card["served"]["value"] == pytest.approx(0.04)
    assert json.loads(added("card", MODEL, "--alias", "production", "--json").out) == card


def test_one_version_is_shown(added, tested):
    card = json.loads(added("card", MODEL, "--version", 3, "--json").out)
    assert (card["release"], card["alias"], card["served"]) == (None, None, None)
    assert [one["version"] for one in card["versions"]] == [3]
    assert card["versions"][0]["by_subgroup"] == tested(light=0.7)["by_subgroup"]


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


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["other"], "NotFound: there is no model 'other'"),
        ([MODEL, "--version", 9], "NotFound: there is no version 9"),
        ([MODEL, "--alias", "staging"], "NotFound: there is no alias 'staging'"),
        (["./no-such-folder"], "FolderError: "),
        ([MODEL, "--out", "no-such-folder/card.html"], "FileNotFoundError: "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(added, arguments, name):
    ended = added("card", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(name)


@pytest.mark.parametrize(
    "arguments", [[], [MODEL, "--version", 1, "--alias", "production"], ["./global", "--version", 1]]
)
def test_wrong_use_is_exit_code_2(added, arguments):
    ended = added("card", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err

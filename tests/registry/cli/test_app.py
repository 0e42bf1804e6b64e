import json
import re

import pytest

from registry.cli.common import as_data
from registry.registry import Registry

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere

MODEL = "skin-lesion"


@pytest.fixture
def bundles(bundle, tested, light, dark):
    """For everybody, unfair to dark; for dark; for light, too good."""
    return [
        bundle(metrics=tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))),
        bundle(dark, tested(dark=0.85)),
        bundle(light, tested(light=0.99)),
    ]


@pytest.fixture
def added(command, folders, bundles):
    """`dermfed-registry` on a registry of these bundles."""
    assert command("add", *folders(*bundles)).code == 0
    return command


def test_every_answer_is_json_where_it_is_asked_for(added, folders, bundle):
    answers = {
        name: json.loads(added(*arguments, "--json").out)
        for name, arguments in {
            "add": ["add", *folders(bundle(seed=5))],
            "list": ["list"],
            "check": ["gates", "check", MODEL, 1, 2, "--to", "production"],
            "promote": ["promote", MODEL, 1, 2, "--to", "production"],
            "again": ["promote", MODEL, 1, 2, "--to", "production"],
            "show": ["show", MODEL],
            "gates": ["gates", "show"],
            "history": ["history", MODEL],
            "verify": ["verify"],
        }.items()
    }
    assert [one["number"] for one in answers["add"]["versions"]] == [4]
    assert [one["number"] for one in answers["list"]] == [1, 2, 3, 4]
    assert answers["check"]["refused"] is False
    assert answers["promote"]["event"]["gates"] == answers["check"]["gates"]
    assert answers["again"] == {"event": None, "release": answers["promote"]["release"]}
    assert answers["show"]["aliases"] == {"production": answers["promote"]["release"]}
    assert answers["show"]["versions"][1]["manifest"]["subgroup"]["name"] == "dark"
    spread = answers["gates"]["gates"][0]
    assert (spread["name"], spread["limit"]) == ("spread", 0.1)
    assert answers["history"][-1] == answers["promote"]["event"]
    assert answers["verify"] == {"problems": []}
    past = ("--override-gates", "--reason", "without figures")
    back = added("promote", MODEL, 4, "--to", "production", *past, "--json")
    assert json.loads(back.out)["release"]["id"] == 2
    assert (
        json.loads(added("rollback", MODEL, "--alias", "production", "--json").out)["event"]["release"] == 1
    )


def test_broken_figures_are_refused_and_named(command, folders, bundle):
    metrics = {"n": 50, "accuracy": 0.9, "by_subgroup": {"dark": {"n": 20, "accuracy": 0.8}}}
    ended = command("add", *folders(bundle(metrics=metrics)))
    assert ended.code == 1
    assert "n is 50 over all test pictures, and 20 over their subgroups" in ended.err


def test_nobody_by_name_may_use_it(registry, monkeypatch, places):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr("registry.environment.getpass.getuser", nobody)
    with Registry.open(places.url, str(places.store)) as opened:
        assert re.fullmatch(r"user \d+", opened._actor)


def test_very_many_versions_are_turned_into_data_at_once(added, monkeypatch):
    """One by one that takes longer than reading and printing them."""
    asked = []
    monkeypatch.setattr("registry.cli.versions.as_data", lambda found: asked.append(found) or as_data(found))
    told = json.loads(added("list", MODEL, "--json").out)
    assert len(asked) == 1
    assert [one["number"] for one in told] == [one.number for one in asked[0]]
    assert len(told) > 1


def test_a_file_that_is_not_there_or_is_a_folder_is_told_with_what_to_do(command, tmp_path):
    asked = {
        (
            "gates",
            "set",
            tmp_path / "none.yaml",
            "--reason",
            "t",
        ): "FileNotFoundError: {} cannot be used (No such",
        (
            "gates",
            "set",
            tmp_path,
            "--reason",
            "t",
        ): "IsADirectoryError: {} cannot be used (Is a directory); check",
    }
    for arguments, said in asked.items():
        ended = command(*arguments)
        assert ended.code == 2
        assert ended.err.startswith(said.format(arguments[2]))
        assert "check its name, its folder and their permissions" in ended.err

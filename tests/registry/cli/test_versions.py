"""`dermfed-registry` as it is typed: answers in JSON, files, and what every command says of a withdrawal."""

import json
import re

import pytest

from registry.bundle.folder import write_bundle_files
from registry.cli.common import as_data
from registry.registry import Registry

pytestmark = pytest.mark.sqlite  # queries on both databases are asked elsewhere
MODEL = "skin-lesion"


@pytest.fixture
def added(command, folders, bundle, tested, light, dark):
    """`dermfed-registry` with versions 1, global and unfair to dark; 2 for dark; 3 for light, too good."""
    bundles = [
        bundle(metrics=tested(light=(0.9, 0.84, 0.94), dark=(0.7, 0.55, 0.82))),
        bundle(dark, tested(dark=0.85)),
        bundle(light, tested(light=0.99)),
    ]
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
    assert answers["show"]["gates"]["production"]["refused_today"] == []
    assert answers["show"]["versions"][1]["manifest"]["subgroup"]["name"] == "dark"
    spread = answers["gates"]["gates"][0]
    assert (spread["name"], spread["limit"]) == ("spread", 0.1)
    assert answers["history"][-1] == answers["promote"]["event"]
    assert answers["verify"] == {"problems": []}


def test_a_canary_is_shown_beside_the_release_that_it_may_replace(added):
    assert added("promote", MODEL, 1, 2, "--to", "production").code == 0
    override = ("--override-gates", "--reason", "t")
    share = ("--share", 0.05, "--for", "light", *override)
    canary = json.loads(added("promote", MODEL, 3, "--to", "production", *share, "--json").out)["canary"]
    names = ["alias", "release", "beside", "share", "subgroup", "mirror", "event", "since", "actor", "reason"]
    assert list(canary) == names  # and not the key by which requests are chosen
    assert (canary["alias"], canary["share"], canary["subgroup"]) == ("production", 0.05, "light")
    shown = json.loads(added("show", MODEL, "--json").out)
    assert shown["canaries"] == {"production": canary}
    listed = {one["number"]: one.get("canary") for one in json.loads(added("list", "--json").out)}
    assert listed == {1: None, 2: None, 3: "canary of production: 0.05 of requests for light"}
    assert "CANARY: 0.05 of requests for light" in added("show", MODEL).out
    assert "a canary answers 0.05 of requests for light" in added("card", MODEL, "--json").out


def test_broken_metrics_are_refused_and_named(command, folders, bundle):
    metrics = {"n": 50, "accuracy": 0.9, "by_subgroup": {"dark": {"n": 20, "accuracy": 0.8}}}
    ended = command("add", *folders(bundle(metrics=metrics)))
    assert ended.code == 1
    assert "n is 50 over all test pictures, and 20 over their subgroups" in ended.err


def test_a_user_without_a_name_may_use_it(registry, monkeypatch, places):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr("registry.environment.getpass.getuser", nobody)
    with Registry.open(places.url, str(places.store)) as opened:
        assert re.fullmatch(r"user \d+", opened._actor)


def test_very_many_versions_are_turned_into_data_at_once(added, monkeypatch):
    """One by one that takes longer than reading and printing them."""
    asked = []
    monkeypatch.setattr("registry.cli.versions.as_data", lambda one: asked.append(one) or as_data(one))
    listed = json.loads(added("list", MODEL, "--json").out)
    assert [[one.number for one in found] for found in asked] == [[one["number"] for one in listed]]
    assert len(listed) > 1


def test_nothing_is_overwritten(added, tmp_path):
    out = tmp_path / "out"
    added("fetch", MODEL, 1, "--out", out)
    (out / "notes").write_text("mine")
    ended = added("fetch", MODEL, 1, "--out", out)
    assert (ended.code, ended.err.split(":")[0]) == (2, "FolderError")
    (out / "notes").unlink()
    (out / "bundle.json").write_bytes(b"{}")
    assert added("fetch", MODEL, 1, "--out", out).code == 2
    assert (out / "bundle.json").read_bytes() == b"{}"


def test_what_was_altered_in_the_store_does_not_come_out(added, places, tmp_path):
    with places.open() as registry:
        places.spoil(registry.manifest(registry.version(MODEL, 1)).file.sha256)
    ended = added("fetch", MODEL, 1, "--out", tmp_path / "out")
    assert (ended.code, ended.err.split(":")[0]) == (2, "ObjectCorrupt")
    assert not (tmp_path / "out").exists()


def test_a_text_that_this_dermfed_would_write_otherwise_keeps_its_bytes(tmp_path):
    for _ in range(2):
        write_bundle_files(tmp_path / "out", b'{"old": 1}', b"model")
        assert (tmp_path / "out" / "bundle.json").read_bytes() == b'{"old": 1}'


def test_a_withdrawal_is_shown_everywhere(command, folders, bundle, graph):
    assert command("add", *folders(bundle(), bundle(seed=1, graph=graph(name="other")))).code == 0
    override = ("--to", "production", "--override-gates", "--reason", "t")
    assert [command("promote", MODEL, number, *override).code for number in (1, 2)] == [0, 0]
    ended = command("withdraw", MODEL, 2, "--reason", "misses melanoma")
    assert (ended.code, ended.err) == (0, "")
    assert "withdrawn version 2\n    reason: misses melanoma" in ended.out
    assert "rolled-back, production: release 2 -> 1\n    since withdrawn: version 2" in ended.out
    assert command("withdraw", MODEL, 2, "--reason", "x").out == "nothing to do: withdrawn already\n"
    for arguments in (
        ("list", MODEL), ("list", "--json"), ("show", MODEL, "--version", 2), ("card", MODEL, "--version", 2),
        ("show", MODEL, "--version", 2, "--json"), ("card", MODEL, "--version", 2, "--json"),
        ("diff", MODEL, 1, 2), ("diff", MODEL, 1, 2, "--json"),
    ):  # fmt: skip
        shown = command(*arguments).out
        assert "WITHDRAWN at " in shown, arguments
        assert "misses melanoma" in shown, arguments
    assert "    reason: misses melanoma\n    WITHDRAWN for good\n" in command("history", MODEL).out
    assert "version 2, WITHDRAWN" in command("card", MODEL, "--version", 2).out
    assert "WITHDRAWN at " not in command("show", MODEL, "--version", 1).out
    assert ["withdrawn" in one for one in json.loads(command("list", "--json").out)] == [False, True]
    ended = command("promote", MODEL, 2, *override)
    assert (ended.code, ended.err.split(":")[0]) == (1, "VersionWithdrawn")

import json
import re
import subprocess
import sys

import pytest
import typer

from registry.cli.app import app
from registry.cli.output import as_data
from registry.registry import Registry

pytestmark = pytest.mark.sqlite_first

MODEL = "skin-lesion"


def commands():
    """Every command, with the words that call it."""

    def walk(command, words):
        for name, one in sorted(getattr(command, "commands", {}).items()):
            yield from walk(one, [*words, name])
        if not hasattr(command, "commands"):
            yield words

    return list(walk(typer.main.get_command(app), []))


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


def test_from_bundles_to_production_and_back(command, folders, bundles):
    listed = command("list")
    assert (listed.code, listed.err) == (0, "")
    assert "no version yet" in listed.out
    ended = command("add", *folders(*bundles))
    assert (ended.code, ended.err) == (0, "")
    rows = [line.split() for line in ended.out.splitlines()[1:]]
    assert [(row[0], row[1], row[2], row[5]) for row in rows] == [
        (MODEL, "1", "global", "added"), (MODEL, "2", "dark", "added"), (MODEL, "3", "light", "added"),
    ]  # fmt: skip
    assert command("list", MODEL).out.count("\n") == 4

    assert command("gates", "check", MODEL, 1, 2, "--to", "production").code == 0
    ended = command("promote", MODEL, 1, 2, "--to", "production", "--reason", "first release")
    assert (ended.code, ended.err) == (0, "")
    for part in (
        "promoted versions 1, 2",
        "production: release none -> 1",
        "first release",
        "spread: passed",
        "sensitivity",
        "balanced accuracy",
    ):
        assert part in ended.out
    again = command("promote", MODEL, 2, "--to", "production")
    assert (again.code, again.out.count("nothing to do")) == (0, 1)

    shown = command("show", MODEL).out
    assert "production: release 1, versions 1 (global), 2 (dark)" in shown
    for part in ("version 1 for global", "version 2 for dark, fitzpatrick 4, 5, 6", "0.700 (0.550 to 0.820)"):
        assert part in shown
    for part in ("fedauto", "sha256:" + "0" * 64, bundles[0].digest, "promised: none"):
        assert part in shown
    assert "version 3 for light" not in shown
    assert "version 3 for light" in command("show", MODEL, "--version", 3).out
    assert command("show", MODEL, "--alias", "production").code == 0

    why = "--override-gates", "--reason", "the ward asked"
    assert command("promote", MODEL, 3, "--to", "production", *why).code == 0
    ended = command("rollback", MODEL, "--alias", "production", "--reason", "worse")
    assert (ended.code, ended.err) == (0, "")
    assert "production: release 2 -> 1" in ended.out
    ended = command("rollback", MODEL, "--alias", "production")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("NothingToRollBack: ")
    history = command("history", MODEL).out
    assert re.search(r"GATES OVERRIDDEN", history)
    for part in ("the ward asked", "worse", "gate spread: refused", "0.140 apart", "rolled-back"):
        assert part in history


@pytest.mark.sqlite
def test_a_refusal_is_one_line_and_exit_code_1(added):
    ended = added("promote", MODEL, 1, "--to", "production")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert ended.out.startswith(f"{MODEL}, production: nothing runs -> versions 1\n")
    assert "gates refused: spread" in ended.out
    assert ended.err.startswith("GateRefusal: ")
    for part in (
        "gate spread",
        "0.700 for dark",
        "0.200 apart",
        "limit is 0.100",
        "--override-gates --reason",
    ):
        assert part in ended.err
    check = added("gates", "check", MODEL, 1, "--to", "production")
    assert (check.code, check.err) == (1, "")
    assert "gate spread: refused" in check.out
    as_json = added("promote", MODEL, 1, "--to", "production", "--json")
    assert as_json.code == 1
    report = json.loads(as_json.out)
    compared = added("compare", MODEL, 1, "--to", "production", "--json")
    assert (compared.code, json.loads(compared.out)) == (1, report["comparison"])
    assert report["gates"]["results"][0]["worst"]["subgroup"] == "dark"
    assert added("list", MODEL, "--json").code == 0
    assert added("promote", MODEL, 1, "--to", "production", "--override-gates").code == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["list", "other"], "NotFound"),
        (["show", MODEL, "--version", 9], "NotFound"),
        (["show", MODEL, "--alias", "production"], "NotFound"),
        (["promote", MODEL, 9, "--to", "production"], "NotFound"),
        (["promote", MODEL, 1, "--to", "a/b"], "InvalidName"),
        (["rollback", MODEL, "--alias", "staging"], "NotFound"),
        (["history", "other"], "NotFound"),
        (["keys", "revoke", "abc"], "NotFound"),
        (["keys", "add", " "], "InvalidName"),
        (["add", "no-such-folder"], "FolderError"),
        (["--url", "mysql://host/db", "list"], "InvalidName"),
        (["--store", "https://host/models", "list"], "InvalidName"),
    ],
)
@pytest.mark.sqlite
def test_bad_input_is_one_line_and_exit_code_2(added, arguments, name):
    ended = added(*arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"{name}: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["promote", MODEL, "--to", "production"],
        ["promote", MODEL, 1],
        ["promote", MODEL, "one", "--to", "production"],
        ["show", MODEL, "--version", 1, "--alias", "production"],
        ["add"],
        ["nothing"],
    ],
)
@pytest.mark.sqlite
def test_wrong_use_is_exit_code_2(added, arguments):
    ended = added(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err


def test_verify_finds_and_add_repairs(added, places, bundles, folders, tmp_path):
    clean = added("verify")
    assert (clean.code, clean.out) == (0, "3 versions, nothing wrong\n")
    places.spoil(bundles[1].digest)
    ended = added("verify")
    assert (ended.code, ended.err) == (1, "")
    for part in (bundles[1].digest, "version 2 of skin-lesion (dark)", "altered", "1 problem\n"):
        assert part in ended.out
    assert json.loads(added("verify", "--json").out)["problems"][0]["about"].startswith(
        "bundle.json of version 2"
    )
    folder = next((tmp_path / "bundles").glob("dark-*"))
    repaired = added("add", folder)
    assert (repaired.code, repaired.err) == (0, "")
    assert "was there" in repaired.out
    assert f"repaired: object {bundles[1].digest}" in repaired.out
    assert added("verify").code == 0


def test_keys(command):
    assert command("keys", "list").out == "no key yet\n"
    made = json.loads(command("keys", "add", "ward 3", "--json").out)
    printed = command("keys", "add", "second").out
    assert re.match(r"dfk_[0-9a-f]{12}_[\w-]{43}\n", printed)
    assert made["secret"].startswith(f"dfk_{made['id']}_")
    listed = command("keys", "list").out
    assert made["secret"] not in listed
    assert f"{made['id']}  ward 3  {made['created'][:19]}Z  valid" in re.sub(r" {2,}", "  ", listed)
    assert command("keys", "revoke", made["id"]).code == 0
    keys = json.loads(command("keys", "list", "--json").out)
    assert [key["revoked"] is None for key in keys] == [False, True]
    assert all("secret" not in key for key in keys)


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


@pytest.mark.parametrize("words", commands(), ids=" ".join)
@pytest.mark.sqlite
def test_every_command_tells_what_it_does_and_shows_examples(command, words):
    ended = command(*words, "--help")
    assert ended.code == 0
    assert f"dermfed-registry {' '.join(words)}" in ended.out.partition("Examples:")[2]


@pytest.mark.sqlite
def test_the_first_help_shows_the_way_and_the_exit_codes(command):
    ended = command("--help")
    for part in (
        "dermfed-registry add",
        "dermfed-registry promote",
        "rollback",
        "Exit codes: 0 done; 1 refused",
    ):
        assert part in ended.out
    assert re.fullmatch(r"dermfed-registry \d+\.\d+\.\d+\S*\n", command("--version").out)


@pytest.mark.sqlite
def test_figures_that_are_not_told_are_shown_as_unknown(command, folders, bundle):
    metrics = {"by_subgroup": {"dark": {"n": None, "accuracy": None}, "light": 7}}
    command("add", *folders(bundle(metrics=metrics)))
    shown = command("show", MODEL)
    assert shown.code == 0
    assert re.search(r"dark +unknown +unknown", shown.out)


@pytest.mark.sqlite
def test_broken_figures_are_refused_and_named(command, folders, bundle):
    metrics = {"by_subgroup": {"dark": {"n": "many", "accuracy": [1]}}}
    ended = command("add", *folders(bundle(metrics=metrics)))
    assert ended.code == 1
    assert "metrics.by_subgroup.dark.n says 'many'; a number of pictures is whole" in ended.err


@pytest.mark.sqlite
def test_nobody_by_name_may_use_it(registry, monkeypatch, places):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr("registry.environment.getpass.getuser", nobody)
    with Registry.open(places.url, str(places.store)) as opened:
        assert re.fullmatch(r"user \d+", opened._actor)


@pytest.mark.sqlite
def test_it_runs_as_a_program_of_its_own(places, folders, bundle):
    program = [sys.executable, "-W", "error", "-m", "registry.cli"]
    ended = subprocess.run(
        [*program, "--url", places.url, "--store", places.store, "add", *folders(bundle())],
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "added" in ended.stdout


def test_very_many_versions_are_turned_into_data_at_once(added, monkeypatch):
    """One by one that takes longer than reading and printing them."""
    asked = []
    monkeypatch.setattr("registry.cli.shown.as_data", lambda found: asked.append(found) or as_data(found))
    told = json.loads(added("list", MODEL, "--json").out)
    assert len(asked) == 1
    assert [one["number"] for one in told] == [one.number for one in asked[0]]
    assert len(told) > 1


def test_of_very_many_versions_the_newest_are_listed(added, monkeypatch):
    everything = added("list", MODEL).out.splitlines()
    monkeypatch.setattr("registry.cli.shown.MOST_LISTED", 2)
    shown = added("list", MODEL).out.splitlines()
    assert [line.split() for line in shown[1:-1]] == [line.split() for line in everything[-2:]]
    assert shown[-1] == f"and {len(everything) - 3} older: --all lists them too"
    assert added("list", MODEL, "--all").out.splitlines() == everything
    assert len(json.loads(added("list", "--json").out)) == len(everything) - 1


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


@pytest.mark.parametrize("words", [("compare",), ("gates", "check")])
def test_the_key_of_what_changes_nothing_is_said_to_sign_nothing(command, words):
    text = " ".join(command(*words, "--help").out.split())
    assert "whose own approval does not count; nothing is signed" in text
    assert "Your private key" not in text


def test_a_mistyped_alias_is_said_to_have_nothing(added):
    ended = added("promote", MODEL, 2, "--to", "producton")
    assert ended.code == 1
    assert "only 2 (dark), as nothing runs under this alias; promote a global" in ended.err
    assert "or name the alias that is meant" in ended.err

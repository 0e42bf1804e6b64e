import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifests.csv_file import read_manifest

COMMANDS = ("import", "adapters", "check", "describe", "partition", "synth", "tones")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    assert run("synth", "--out", tmp_path / "made-up", "--pictures", 30, "--size", 32).exit_code == 0
    return tmp_path / "made-up" / "manifest.csv"


def test_version_and_help() -> None:
    assert run("--version").stdout == f"dermfed-data {version('dermfed')}\n"
    help_text = run("--help").stdout
    assert all(command in help_text for command in COMMANDS)
    assert "Exit codes: 0 done" in help_text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples(command: str) -> None:
    help_text = run(command, "--help").stdout
    assert f"Examples:\n    dermfed-data {command} " in help_text
    assert "--json" in help_text


def test_synth_does_not_touch_a_folder_with_files(made_up: Path) -> None:
    again = run("synth", "--out", made_up.parent)
    assert again.exit_code == 1
    assert "is not empty; name another folder" in again.stderr


def test_import_writes_a_manifest_once(made_up: Path, tmp_path: Path) -> None:
    words = ("import", "csv", made_up.parent, "--out", tmp_path / "m.csv", "--option", "table=manifest.csv",
             "--option", "label=label", "--option", 'extra={"patient_id": "person"}')  # fmt: skip
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["pictures"] == 30
    assert answer["columns"][-1] == "person"
    manifest = read_manifest(tmp_path / "m.csv")
    assert manifest.rows[0].image == "made-up/images/000000.png"
    before = (tmp_path / "m.csv").read_bytes()
    refused = run(*words)
    assert refused.exit_code == 1
    assert "add --force" in refused.stderr
    assert (tmp_path / "m.csv").read_bytes() == before
    assert run(*words, "--force").exit_code == 0


def test_wrong_use_exits_with_2_and_says_what_to_do(made_up: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "x.csv")
    cases = {
        ("import", "ham1000", tmp_path, *out): "did you mean `ham10000`",
        ("import", "csv", tmp_path, *out): "table: Field required",
        ("import", "csv", tmp_path, *out, "--option", "table"): "write it as KEY=VALUE",
        ("import", "image-folder", tmp_path / "no", *out): "no pictures in folders",
        ("check", tmp_path / "no.csv"): "does not exist",
        ("describe", made_up, "--by", "clinic"): "no column 'clinic'",
        ("partition", made_up, "--by", "iid", *out): "clients by iid needs `count`",
        ("partition", made_up, "--by", "shape", *out): "shape",
        ("partition", made_up, "--by", "column", "--column", "skin_tone", "--count", 1, *out): "too few",
        ("partition", made_up, "--by", "iid", "--count", 99, *out): "ask for fewer clients",
    }
    for words, said in cases.items():
        result = run(*words)
        assert result.exit_code == 2, words
        assert said in result.stderr
        assert not (tmp_path / "x.csv").exists()


def test_check_exits_with_1_when_there_are_problems(made_up: Path) -> None:
    assert run("check", made_up).stdout.endswith("30 pictures, no problems\n")
    (made_up.parent / "images" / "000003.png").write_text("no picture")
    found = run("check", made_up, "--json")
    assert found.exit_code == 1
    problems = json.loads(found.stdout)["problems"]
    assert [problem["kind"] for problem in problems] == ["picture"]
    assert "picture: images/000003.png: " in run("check", made_up).stdout


def test_describe_counts_every_picture(made_up: Path) -> None:
    answer = json.loads(run("describe", made_up, "--json").stdout)
    assert (answer["pictures"], answer["lesions"], answer["patients"]) == (30, 25, 20)
    assert sum(count["pictures"] for count in answer["counts"]) == 30
    assert {count["scale"] for count in answer["counts"]} == {"fitzpatrick"}
    assert "30 pictures, 25 lesions, 20 patients" in run("describe", made_up).stdout


def test_partition_writes_a_manifest_for_each_client(made_up: Path, tmp_path: Path) -> None:
    words = ("partition", made_up, "--by", "iid", "--count", 3, "--out", tmp_path / "parts")
    answer = json.loads(run(*words, "--json").stdout)["clients"]
    assert sorted(answer) == ["client-0", "client-1", "client-2"]
    assert sum(client["pictures"] for client in answer.values()) == 30
    for client in answer.values():
        part = read_manifest(Path(client["manifest"]))
        assert len(part.rows) == client["pictures"]
        assert all((part.folder / row.image).is_file() for row in part.rows)
    assert run(*words).exit_code == 1
    assert run(*words, "--force").exit_code == 0

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from clients.data.adapters.table import adapter_names
from clients.data.cli import app
from clients.data.manifest_file import read_manifest


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def made_up(tmp_path):
    assert run("synth", "--out", tmp_path / "made-up", "--pictures", 30, "--size", 32).exit_code == 0
    return tmp_path / "made-up" / "manifest.csv"


def test_import_writes_a_manifest_once(made_up, tmp_path):
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


def test_describe_counts_every_picture(made_up):
    answer = json.loads(run("describe", made_up, "--json").stdout)
    assert (answer["pictures"], answer["lesions"], answer["patients"]) == (30, 25, 20)
    assert sum(count["pictures"] for count in answer["counts"]) == 30
    assert {count["scale"] for count in answer["counts"]} == {"fitzpatrick"}
    assert "30 pictures, 25 lesions, 20 patients" in run("describe", made_up).stdout


def test_link_writes_a_manifest_whose_copies_stay_together(made_up, tmp_path):
    images = made_up.parent / "images"
    shutil.copy(images / "000003.png", images / "000020.png")
    with Image.open(images / "000007.png") as image:
        image.resize((64, 64)).save(images / "000025.png")
    lines = made_up.read_text().splitlines()
    header = lines[0].split(",")
    for number, split in ((3, "train"), (20, "test")):
        cells = lines[number + 1].split(",")
        cells[header.index("split")] = split
        lines[number + 1] = ",".join(cells)
    made_up.write_text("\n".join(lines) + "\n")
    out = tmp_path / "linked.csv"
    kinds = {problem["kind"] for problem in json.loads(run("check", made_up, "--json").stdout)["problems"]}
    assert {"duplicate", "near-duplicate"} <= kinds
    told = run("link", made_up, "--out", out)
    assert told.exit_code == 0
    assert f"{out}: 30 pictures, 2 groups; 1 files are copies, 1 pairs near-duplicates" in told.stdout
    assert "1 groups are on two sides of a split, which a job refuses" in told.stdout
    groups = read_manifest(out).values("duplicate_group")
    assert groups[3] == groups[20] != ""
    assert groups[7] == groups[25] != ""
    assert [number for number, group in enumerate(groups) if group] == [3, 7, 20, 25]
    assert run("link", made_up, "--out", out).exit_code == 1
    answer = json.loads(run("link", made_up, "--out", out, "--force", "--json").stdout)
    assert (answer["groups"], answer["identical"], answer["near_duplicates"]) == (2, 1, 1)
    assert (answer["broken"], len(answer["straddling"])) == ([], 1)


def test_without_the_library_check_says_so_and_link_refuses(made_up, tmp_path, monkeypatch):
    assert json.loads(run("check", made_up, "--json").stdout)["near_duplicates"]
    monkeypatch.setattr("clients.data.near_duplicates.find_spec", lambda name: None)
    checked = run("check", made_up)
    assert checked.exit_code == 0
    assert "near-duplicates are not looked for: ImageHash is not installed; `pip install" in checked.stderr
    assert run("check", made_up, "--no-near-duplicates").stderr == ""
    linked = run("link", made_up, "--out", tmp_path / "linked.csv")
    assert linked.exit_code == 2
    assert "`pip install ImageHash`" in linked.stderr


def test_partition_writes_a_manifest_for_each_client(made_up, tmp_path):
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


def test_adapters_are_told_with_their_options():
    assert 'picture = "derm" [derm, clinic, both]' in run("adapters", "derm7pt").stdout
    answer = json.loads(run("adapters", "--json").stdout)
    assert list(answer) == adapter_names()
    assert [option["name"] for option in answer["scin"]] == ["scale", "graders", "ties", "repeats"]
    assert "--keep-first" in answer["scin"][-1]["meaning"]
    assert answer["csv"][0] | {"meaning": ""} == {
        "name": "table", "required": True, "default": None, "values": [], "meaning": ""
    }  # fmt: skip
    wrong = run("adapters", "scim")
    assert wrong.exit_code == 2
    assert "did you mean `scin`" in wrong.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("encoding=cp-1252x", "there is no encoding 'cp-1252x'; common ones"),
        ("delimiter=semi", "'semi' is no delimiter; name comma, semicolon, tab, pipe"),
    ],
)
def test_wrong_options_of_a_table_name_the_valid_ones(made_up, option, said):
    words = ("import", "csv", made_up.parent, "--out", "m.csv", "--option", "table=manifest.csv")
    answered = run(*words, "--option", option)
    assert answered.exit_code == 2
    assert said in answered.stderr


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ((), "L000000", "P000003"),
        (("--seed", 7), "s7-L000000", "s7-P000003"),
        (("--seed", 7, "--prefix", ""), "L000000", "P000003"),
        (("--prefix", "north "), "north L000000", "north P000003"),
    ],
)
def test_made_up_lesions_of_two_seeds_are_others_unless_it_is_asked_for(tmp_path, options, first, last):
    assert run("synth", "--out", tmp_path / "a", "--pictures", 6, "--size", 32, *options).exit_code == 0
    rows = read_manifest(tmp_path / "a" / "manifest.csv").rows
    assert rows[0].lesion_id == first
    assert max(row.patient_id for row in rows) == last


def test_problems_of_a_manifest_are_a_line_each_whatever_its_cells_hold(made_up):
    text = made_up.read_text()
    header, first, rest = text.split("\n", 2)
    place = header.split(",").index("patient_id")
    cells = first.split(",")
    rows = [",".join([*cells[:place], f'"p\n{n}: no problem"', *cells[place + 1 :]]) for n in (1, 2)]
    rows[1] = rows[1].replace(cells[0], "images/absent\u202e.png")
    made_up.write_text("\n".join([header, *rows, rest]))
    ended = run("check", made_up)
    assert ended.exit_code == 1
    assert r"p\n1: no problem" in ended.stdout
    assert r"images/absent\u202e.png" in ended.stdout
    assert "\n1: no problem" not in ended.stdout

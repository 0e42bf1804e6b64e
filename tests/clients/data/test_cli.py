import json
import shutil
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from clients.data.adapters.options import adapter_options
from clients.data.adapters.table import adapter_names, find_adapter
from clients.data.cli import app
from clients.data.manifests.csv_file import read_manifest
from clients.data.synthetic.write import write_synthetic

COMMANDS = ("import", "adapters", "check", "link", "describe", "partition", "synth", "tones")


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


def test_link_writes_a_manifest_whose_copies_stay_together(made_up: Path, tmp_path: Path) -> None:
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


def test_without_the_library_check_says_so_and_link_refuses(
    made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(run("check", made_up, "--json").stdout)["near_duplicates"]
    monkeypatch.setattr("clients.data.pictures.fingerprints.find_spec", lambda name: None)
    checked = run("check", made_up)
    assert checked.exit_code == 0
    assert "near-duplicates are not looked for: ImageHash is not installed; `pip install" in checked.stderr
    assert run("check", made_up, "--no-near-duplicates").stderr == ""
    linked = run("link", made_up, "--out", tmp_path / "linked.csv")
    assert linked.exit_code == 2
    assert "`pip install ImageHash`" in linked.stderr


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


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of thirty lines; of the pictures, 25 are not there, and two are named by no line."""
    folder = tmp_path / "export"
    write_synthetic(folder / "drawn", pictures=6, size=32, seed=1)
    for number, picture in enumerate(sorted((folder / "drawn" / "images").iterdir())):
        picture.rename(folder / f"{number}.png")
    shutil.rmtree(folder / "drawn")
    lines = "".join(f"{number}.png,NV\n" for number in range(4)) + "".join(
        f"x{n}.png,NV\n" for n in range(24)
    )
    (folder / "t.csv").write_text(f'image,label\n{lines}y.png,NV\n"4.JPG",MEL\n')
    (folder / "y.heic").write_bytes(b"\x00\x00\x00\x18ftypheic")
    return folder


def test_import_tells_what_is_missing_by_cause_and_what_no_line_names(exported: Path) -> None:
    words = ("import", "csv", exported, "--out", exported / "m.csv", "--option", "table=t.csv", "--json")
    answered = run(*words)
    answer = json.loads(answered.stdout)
    assert (answer["pictures"], answer["left_out"]) == (30, [])
    counts = {group["cause"]: group["count"] for group in answer["unusable"]}
    assert list(counts.values()) == [24, 1]
    assert len(answer["unusable"][0]["examples"]) == 20
    assert answer["unlisted"] == {"count": 2, "examples": ["5.png", "y.heic"]}
    (note,) = answer["notes"]
    assert note == "1 pictures are named with .JPG for .png, e.g. '4.JPG' for '4.png'"
    for line in (note, "25 of 30 pictures cannot be used", "24: there is no such file", "... and 4 more"):
        assert line in answered.stderr
    assert "2 pictures on disk are named by no line: 5.png, y.heic" in answered.stderr


def test_present_only_leaves_out_lines_without_a_picture_and_says_so(exported: Path) -> None:
    (exported / "0.png").write_bytes(b"")
    words = ("import", "csv", exported, "--out", exported / "m.csv", "--option", "table=t.csv", "--json")
    answered = run(*words, "--present-only")
    answer = json.loads(answered.stdout)
    assert answer["pictures"] == 5
    assert [(group["count"], group["examples"][0]) for group in answer["left_out"]] == [
        (24, "x0.png"),
        (1, "y.png: y.heic"),
    ]
    assert [group["examples"] for group in answer["unusable"]] == [["0.png"]]  # it is there, with no bytes
    assert "25 of 30 lines are left out" in answered.stderr
    assert [row.image for row in read_manifest(exported / "m.csv").rows] == [
        *(f"{number}.png" for number in range(5))
    ]


def test_check_shows_twenty_of_each_cause_and_all_in_json(exported: Path) -> None:
    run("import", "csv", exported, "--out", exported / "m.csv", "--option", "table=t.csv")
    found = run("check", exported / "m.csv")
    assert found.exit_code == 1
    lines = found.stdout.splitlines()
    assert lines[0] == "24 pictures: there is no such file"
    assert lines[1] == "  picture: x0.png"
    assert lines[21] == "  ... and 4 more"
    assert lines[22] == "1 pictures: there is no such file, but one with another suffix"
    assert "2 pictures on disk are named by no line: 5.png, y.heic" in found.stderr
    answer = json.loads(run("check", exported / "m.csv", "--json").stdout)
    assert len(answer["problems"]) == 25
    assert {problem["cause"] for problem in answer["problems"]} == {
        "there is no such file",
        "there is no such file, but one with another suffix",
    }
    assert answer["unlisted"]["count"] == 2


def test_pictures_that_no_line_names_are_no_problem(made_up: Path) -> None:
    lines = made_up.read_text().splitlines(keepends=True)
    made_up.write_text("".join(lines[:-1]))
    found = run("check", made_up)
    assert found.exit_code == 0
    assert "1 pictures on disk are named by no line: images/000029.png" in found.stderr


def test_the_help_of_import_has_every_option_of_every_adapter() -> None:
    help_text = " ".join(run("import", "--help").stdout.split())
    for name in adapter_names():
        for option in adapter_options(find_adapter(name)):
            given = "(needed)" if option.required else f"= {json.dumps(option.default, ensure_ascii=False)}"
            assert f"{option.name} {given}" in help_text
            assert option.meaning, f"the docstring of {name} does not say what {option.name} is"
            assert option.meaning in help_text


def test_adapters_are_told_with_their_options() -> None:
    assert 'picture = "derm" [derm, clinic, both]' in run("adapters", "derm7pt").stdout
    answer = json.loads(run("adapters", "--json").stdout)
    assert list(answer) == adapter_names()
    assert [option["name"] for option in answer["scin"]] == ["scale", "graders", "ties"]
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
def test_wrong_options_of_a_table_name_the_valid_ones(exported: Path, option: str, said: str) -> None:
    words = ("import", "csv", exported, "--out", exported / "m.csv", "--option", "table=t.csv")
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
def test_made_up_lesions_of_two_seeds_are_others_unless_it_is_asked_for(
    tmp_path: Path, options: tuple[object, ...], first: str, last: str
) -> None:
    assert run("synth", "--out", tmp_path / "a", "--pictures", 6, "--size", 32, *options).exit_code == 0
    rows = read_manifest(tmp_path / "a" / "manifest.csv").rows
    assert rows[0].lesion_id == first
    assert max(row.patient_id for row in rows) == last


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize(
    ("command", "whole"),
    [
        (("describe",), ["label", "all"]),
        (("describe", "--by", "patient_id"), ["label", "all", "P000000", "P000019"]),
        (("tones", "--replicates", 2), ["tone", "pictures", "answer", "quartiles", "darker"]),
    ],
)
def test_no_table_is_cut_on_a_narrow_terminal(
    made_up: Path, command: tuple[object, ...], whole: list[str], columns: int
) -> None:
    words = [str(word) for word in (command[0], made_up, *command[1:])]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": str(columns)})
    assert shown.exit_code == 0
    assert "…" not in shown.stdout
    assert [name for name in whole if name not in shown.stdout] == []


STEERING = "a\x1b[2J\nb\x9bc"
SPELT = r"a\x1b[2J\nb\x9bc"


@pytest.fixture
def steering(made_up: Path) -> Path:
    """The folder of a manifest, beside whose pictures others lie whose names steer a terminal."""
    for name in (f"{STEERING}.png", f"images/{STEERING}.png"):
        shutil.copy(made_up.parent / "images" / "000000.png", made_up.parent / name)
    with zipfile.ZipFile(made_up.parent / "z.zip", "w") as archive:
        archive.write(made_up.parent / "images" / "000001.png", f"in/{STEERING}.png")
    return made_up.parent


def test_names_of_files_steer_no_terminal_where_they_are_told(steering: Path, tmp_path: Path) -> None:
    table = ("--option", "table=manifest.csv", "--option", "label=label")
    imported = run("import", "csv", steering, "--out", tmp_path / "m.csv", *table)
    assert imported.exit_code == 0, imported.stderr
    assert f"{SPELT}.png" in imported.stderr
    checked = run("check", steering / "manifest.csv")
    assert f"{SPELT}.png" in checked.stderr
    refused = run("import", "image-folder", steering, "--out", tmp_path / "f.csv")
    assert refused.exit_code == 2
    assert f"{SPELT}.png" in refused.stderr
    assert "rename these files" in refused.stderr
    for ended in (imported, checked, refused):
        assert not {"\x1b", "\x9b"} & set(ended.stdout + ended.stderr)


def test_problems_of_a_manifest_are_a_line_each_whatever_its_cells_hold(made_up: Path) -> None:
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


@pytest.mark.parametrize("name", ["[/b]", "ward [a-z]"])
def test_columns_and_cells_with_brackets_are_described_as_they_are(made_up: Path, name: str) -> None:
    lines = made_up.read_text().splitlines()
    made_up.write_text("\n".join([f"{lines[0]},{name}", *(f"{line},{name}" for line in lines[1:])]) + "\n")
    ended = run("describe", made_up, "--by", name)
    assert ended.exit_code == 0, ended.output
    assert f"; by {name}\n" in ended.stdout
    assert ended.stdout.count(name) > 2


def test_the_report_says_how_the_table_was_read(made_up: Path) -> None:
    made_up.write_text(made_up.read_text().replace(",", ";"))
    answered = run("report", made_up, "--out", made_up.with_name("quality.html"))
    assert answered.exit_code == 0
    assert "manifest.csv: read as UTF-8 with semicolons" in answered.stderr

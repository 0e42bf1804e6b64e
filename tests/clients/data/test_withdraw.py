"""A patient withdraws: the pictures go, and of all others none moves to where it was not."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifest import Row
from clients.data.manifest_file import read_manifest, write_manifest
from clients.data.withdraw import drawn_pictures
from training.jobs.job import read_job

JOB = """
name: withdrawal
data:
  manifest: [{manifest}]
  image_size: 12
  clients: {{by: manifest}}
  subgroups: {{scale: fitzpatrick, groups: {{light: ["1", "2"], dark: ["5", "6"]}}}}
  {more}
model: {{name: resnet18, weights: none, options: {{channels: [4, 8, 16, 32]}}}}
stages: [{{stage: federate, rounds: 1, objective: {{name: supervised}}, aggregator: {{name: fedavg}}}}]
"""


def patients_rows(count: int = 40) -> list[Row]:
    """Of each patient one or two pictures; the third patient has one more without a patient's name."""
    rows = [
        Row(f"{n}-{part}.png", ("MEL", "NV", "BCC")[n % 3], "15"[n % 2], "fitzpatrick", f"L{n}", f"P{n}")
        for n in range(count)
        for part in ("ab" if n % 4 else "a")
    ]
    return [*rows, Row("3-c.png", "MEL", "5", "fitzpatrick", "L3")]


def withdraw(*words: object) -> Result:
    return CliRunner().invoke(app, ["withdraw", *map(str, words)])


@pytest.fixture
def job(tmp_path, monkeypatch):
    """`job(manifest, more)`: a job's file."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))

    def write(manifest: Path, more: str = "") -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(JOB.format(manifest=manifest, more=more))
        return path

    return write


def made_of(job: Path, manifest: Path):
    """What a job makes of each picture, by the picture's file."""
    read = read_job(job)
    found = drawn_pictures(read.data, read.seed, manifest, manifest.parent / "cache", read.picture, "north")
    return {(manifest.parent / image).name: picture for image, picture in found.items()}


def test_a_built_in_job_is_found_by_its_name(write_pictures, tmp_path):
    ended = withdraw(
        write_pictures(patients_rows()), "--patient", "nobody", "--splits", "demo", "--out", tmp_path / "x"
    )
    assert "nobody" in ended.output
    assert "cannot read demo" not in ended.output


def test_the_pictures_go_and_no_other_moves_which_it_would_without(write_pictures, job, tmp_path):
    manifest = write_pictures(patients_rows())
    asked, out = job(manifest), tmp_path / "new" / "without.csv"
    before = made_of(asked, manifest)
    ended = withdraw(manifest, "--patient", "P3", "--splits", asked, "--out", out, "--json")
    assert ended.exit_code == 0, ended.output
    told = {"manifest": str(out), "pictures": 68, "withdrawn": 3, "withdrawn_used": 3, "pinned": 68}
    assert json.loads(ended.stdout) == told
    left = read_manifest(out)
    theirs = {"3-a.png", "3-b.png", "3-c.png"}  # the last is linked by its lesion
    assert {Path(row.image).name for row in left.rows} == before.keys() - theirs
    after = made_of(asked, out)
    assert after == {name: picture for name, picture in before.items() if name not in theirs}
    # The control: the same rows without the splits that were written down.
    unpinned = read_manifest(manifest)
    rows = [row for row in unpinned.rows if row.lesion_id != "L3"]
    write_manifest(unpinned.keep(rows), tmp_path / "unpinned.csv")
    moved = made_of(asked, tmp_path / "unpinned.csv")
    assert any(moved[name].split != picture.split for name, picture in after.items())
    # Again, from what was written: that stays, too.
    second = tmp_path / "second.csv"
    assert withdraw(out, "--patient", "P8", "--splits", asked, "--out", second).stdout.splitlines() == [
        "1 pictures are taken out, 1 of which the job uses",
        "no other picture of the job has moved",
        f"{second}: 67 pictures",
    ]
    assert made_of(asked, second) == {n: p for n, p in after.items() if not n.startswith("8-")}


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        (None, ["--patient", "P33x"], "no row has the patient_id 'P33x'"),
        ("no patients", ["--patient", "P3"], "no row of the manifest"),
        ("linked", ["--patient", "P3"], "pictures of P4 are linked with those of P3"),
        ("same file", ["--patient", "P3"], "1 pictures that stay are the same files"),
        ("label_fraction: 0.5", ["--patient", "P3"], "data.label_fraction: 0.5"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do_and_nothing_is_written(
    change, words, said, write_pictures, job, tmp_path
):
    from dataclasses import replace

    rows = patients_rows(12)
    if change == "no patients":
        rows = [replace(row, patient_id="") for row in rows]
    if change == "linked":
        rows = [replace(row, lesion_id="L4") if row.image == "3-c.png" else row for row in rows]
        rows.append(Row("3-d.png", "MEL", "5", "fitzpatrick", "L4", "P3"))
    if change == "same file":
        rows.append(Row("copy.png", "MEL", "5", "fitzpatrick", "L99", "P99"))
    manifest = write_pictures(rows)
    if change == "same file":
        (tmp_path / "copy.png").write_bytes((tmp_path / "3-a.png").read_bytes())
    more = change if change is not None and ":" in change else ""
    before = {path.name for path in tmp_path.iterdir()}
    out = tmp_path / "new.csv"
    ended = withdraw(manifest, *words, "--splits", job(manifest, more), "--out", out)
    assert ended.exit_code == 2, ended.output
    assert said in ended.output
    assert {path.name for path in tmp_path.iterdir()} - before <= {"job.yaml", "cache"}

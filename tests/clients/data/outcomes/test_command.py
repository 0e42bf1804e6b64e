"""`dermfed-data outcomes`: shows what would change, writes it, and what a run makes of changed data."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from clients.data.cli import app
from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import Row
from clients.node.own_data import read_own
from tests.clients.data.outcomes.conftest import answer_id
from training.engines.nvflare.roster import Roster
from training.errors import DataError
from training.jobs.job import read_job

JOB = """
name: outcomes
data: {{manifest: [{manifest}], image_size: 12, clients: {{by: manifest}}}}
model: {{name: resnet18, weights: none, options: {{channels: [4, 8, 16, 32]}}}}
stages: [{{stage: federate, rounds: 1, objective: {{name: supervised}}, aggregator: {{name: fedavg}}}}]
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["outcomes", *map(str, words)])


@pytest.fixture
def tables(write_pictures, tmp_path, monkeypatch) -> list[Path]:
    """A manifest, the tables of answers and outcomes, and a job."""
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    rows = [
        Row(f"{n}.png", label="" if n % 3 else ("MEL", "NV")[n % 2], patient_id=f"P{n}") for n in range(60)
    ]
    manifest = write_pictures(rows)
    answers, outcomes, job = (tmp_path / name for name in ("answers.csv", "outcomes.csv", "job.yaml"))
    answers.write_text("picture,id\n" + "".join(f"{n}.png,{answer_id(n)}\n" for n in range(0, 60, 2)))
    lines = [f"{answer_id(n)},MEL,histopathology,2026-03-31,demo,1" for n in range(0, 60, 4)]
    outcomes.write_text("id,label,confirmed_by,date,model,version\n" + "\n".join(lines) + "\n")
    job.write_text(JOB.format(manifest=manifest))
    return [manifest, answers, outcomes, job]


def words_of(tables: list[Path]) -> list[object]:
    manifest, answers, outcomes, _ = tables
    return [manifest, "--answers", answers, "--outcomes", outcomes]


def test_without_out_nothing_is_written(tables):
    before = tables[0].read_bytes()
    found = run(*words_of(tables))
    assert found.exit_code == 0
    assert "10 labelled, 5 confirmed, 0 replaced" in found.stdout
    assert "30 pictures were answered, of 15 nothing is known" in found.stdout
    assert "nothing is written" in found.stdout
    assert "train_only: {label_from: outcome}" in found.stdout
    assert tables[0].read_bytes() == before


def test_a_manifest_is_written_with_splits_that_stay(tables, tmp_path):
    out = tmp_path / "labelled.csv"
    refused = run(*words_of(tables), "--out", out)
    assert refused.exit_code == 2
    assert "--splits job.yaml" in refused.stderr
    assert not out.exists()
    found = run(*words_of(tables), "--splits", tables[3], "--out", out, "--json")
    answer = json.loads(found.stdout)
    assert answer["changes"]["labelled"] == 10
    assert answer["pinned"] == 20 + 10  # those that had a label, and those that have one now
    rows = read_manifest(out).rows
    assert sum(row.value("label_from") == "outcome" for row in rows) == 10
    assert all(row.split for row in rows if row.label)
    assert run(*words_of(tables), "--splits", tables[3], "--out", out).exit_code == 1  # it is there
    again = run(out, *words_of(tables)[1:], "--out", tmp_path / "twice.csv")
    assert read_manifest(tmp_path / "twice.csv").rows == rows
    assert (found.exit_code, again.exit_code) == (0, 0)


def test_conflicts_are_told_with_their_number(tables):
    outcomes = tables[2]
    text = outcomes.read_text().replace(f"{answer_id(0)},MEL", f"{answer_id(0)},BCC")
    outcomes.write_text(text)
    found = run(*words_of(tables))
    assert found.exit_code == 1
    assert "1 labels stay, and outcomes say another" in found.stdout
    assert "0.png: its label MEL (nobody said how it is known) stays, and histopathology" in found.stdout


def test_wrong_tables_are_refused_with_their_lines(tables):
    manifest, answers, outcomes, _ = tables
    good = outcomes.read_text()
    for text, said in (
        (good.replace("histopathology", "biopsy"), "15 problems"),
        (good.replace("2026-03-31", "31.3.2026"), "YEAR-MONTH-DAY"),
        (good + good.splitlines()[1] + "\n", "1 ids more than once"),
        ("id,label\n", "has no column confirmed_by, date"),
    ):
        outcomes.write_text(text)
        found = run(manifest, "--answers", answers, "--outcomes", outcomes)
        assert (found.exit_code, said in found.stderr) == (2, True), found.stderr
    outcomes.write_text(good)
    answers.write_text("picture,id\n0.png,MEL-17\n,{}\n")
    assert "2 problems" in run(manifest, "--answers", answers, "--outcomes", outcomes).stderr


def test_a_hospital_with_other_labels_is_no_longer_in_the_run_that_has_begun(tables, tmp_path):
    out = tmp_path / "labelled.csv"
    run(*words_of(tables), "--splits", tables[3], "--out", out)
    job = read_job(tables[3])
    before, after = (read_own(job, "north", path, tmp_path / "cache") for path in (tables[0], out))
    roster = Roster(clients=("north",), labels=before.properties.labels, subgroups=(),
                    fingerprints={"north": before.properties.fingerprint})  # fmt: skip
    roster.refuse_other_data(before.properties)  # the control
    with pytest.raises(DataError, match="returns with other data than it began the run with"):
        roster.refuse_other_data(after.properties)

"""The whole circle: a service answers, outcomes come back and become labels, and the next job learns."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clients.data.adapters.synthetic import Synthetic
from clients.data.cli import app as data
from clients.data.manifests.csv_file import read_manifest, write_manifest
from registry.cli.outcomes import app as outcomes
from registry.field.exporting import export_field
from registry.outcomes.store import OutcomeStore
from training.data.dataset import SPLITS
from training.jobs.job import read_job
from training.wiring import train

TODAY = datetime.now(UTC).date().isoformat()
JOB = """
name: circle
data: {manifest: [manifest.csv], label_map: malignancy, image_size: 16, train_only: {label_from: [outcome]},
       subgroups: {scale: fitzpatrick, groups: {light: [1, 2, 3], dark: [4, 5, 6]}}}
model: {name: resnet18, weights: none, options: {channels: [4, 8, 16, 32]}}
privacy: {min_count: 2}
stages:
  - {stage: federate, rounds: 1, objective: {name: supervised, batch_size: 16}, aggregator: {name: fedavg}}
"""
FIELD = """
  - {stage: field, versions: [{name: first, digest: "DIGEST"}], files: {labelled: field.json}}
"""


def ran(app, *words):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def trained(folder: Path, job: Path):
    """Labelled training pictures of a run, and where its malignant ones are: and its summary."""
    result = train(read_job(job), job, folder / f"run-{job.stem}", resume=False)
    (counts,) = result.context.census.counts.values()
    return int(counts[SPLITS.index("train"), :, :-1].sum()), result.summary


@pytest.mark.long
def test_outcomes_of_a_service_are_learned_from(serve, registry, promote, bundle, tmp_path, monkeypatch):
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    promote(registry, bundle())
    # A hospital: half of its patients have no label yet.
    drawn = Synthetic(pictures=120, size=32).manifest(tmp_path / "pictures")
    people = sorted({row.patient_id for row in drawn.rows})
    unlabelled = set(people[::2])
    rows = [replace(row, label="") if row.patient_id in unlabelled else row for row in drawn.rows]
    write_manifest(drawn.keep(rows), tmp_path / "manifest.csv")
    job = tmp_path / "first.yaml"
    job.write_text(JOB.replace(", train_only: {label_from: [outcome]}", ""))
    before, _ = trained(tmp_path, job)

    # Its service answers for the pictures without a label, and the pathology for every other one of them.
    url, asked = f"sqlite:///{tmp_path / 'outcomes.db'}", read_manifest(tmp_path / "manifest.csv").rows
    answers, given = ["picture,id"], 0
    truth = {row.image: row.label for row in read_manifest(tmp_path / "manifest.csv").rows} | {
        kept.image: full.label for kept, full in zip(asked, drawn.rows, strict=True)
    }
    lesions = {row.lesion_id for row in asked if not row.label}
    with serve(outcomes_url=url) as service:
        for place, lesion in enumerate(sorted(lesions)):
            row = next(one for one in asked if one.lesion_id == lesion)
            id_ = service.diagnose((tmp_path / row.image).read_bytes(), "image/png").json()["id"]
            answers.append(f"{row.image},{id_}")
            if place % 2:
                continue
            said = {"label": {"MEL": "MEL", "NV": "NV"}.get(truth[row.image], "AK"), "date": TODAY}
            told = service.client.post(
                f"/v1/diagnoses/{id_}/outcome", json={**said, "confirmed_by": "histopathology"}
            )
            assert told.status_code == 200, told.text
            given += 1
    (tmp_path / "answers.csv").write_text("\n".join(answers) + "\n")

    # They become labels.
    ran(outcomes, "export", tmp_path / "outcomes.csv", "--url", url)
    words = [tmp_path / "manifest.csv", "--answers", tmp_path / "answers.csv"]
    words += ["--outcomes", tmp_path / "outcomes.csv", "--splits", job, "--out", tmp_path / "labelled.csv"]
    found = json.loads(ran(data, "outcomes", *words, "--json"))
    labelled = [row for row in read_manifest(tmp_path / "labelled.csv").rows if row.value("label_from")]
    assert found["changes"]["labelled"] == len(labelled) >= given
    assert {row.split for row in labelled} == {"train"}

    # The next job learns from them, is judged by the same pictures, and tells of the field.
    with OutcomeStore.open(url) as store:
        counted = export_field(
            store,
            "skin-lesion",
            lambda n: registry.version("skin-lesion", n).digest,
            datetime.now(UTC).date(),
        )
    (tmp_path / "field.json").write_text(counted.file.model_dump_json())
    (cell, *_) = json.loads((tmp_path / "field.json").read_text())["cells"]
    second = tmp_path / "second.yaml"
    second.write_text(JOB.replace("manifest.csv", "labelled.csv") + FIELD.replace("DIGEST", cell["version"]))
    after, summary = trained(tmp_path, second)
    assert after == before + len(labelled)
    (told,) = summary["stages"][1]["facts"]["field"]
    assert (told["answered"], told["outcomes"]) == (len(lesions), given)
    first_run = json.loads((tmp_path / "run-first" / "summary.json").read_text())
    assert summary["stages"][0]["test"]["n"] == first_run["stages"][0]["test"]["n"]

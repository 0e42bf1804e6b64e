"""Jobs that would fail, some of them after hours: `--check` refuses each with place, value and next step."""

import json
import re

import numpy as np
import pytest
import torch

from training.data.dataset import SPLITS
from training.jobs.preflight import THIN, as_disclosed, matrix, patients_of, plan_stages
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.census import Census


def test_patients_are_counted_by_split_and_subgroup_as_by_hand(make_dataset):
    dataset = make_dataset()
    found = patients_of(dataset)
    for client in dataset.clients:
        for row, split in enumerate(SPLITS):
            examples = dataset.examples(client, split)
            for place in range(3):
                mine = (examples.subgroups % 3 == place) & (examples.labels >= 0)
                assert found[client][row, place] == len(set(examples.people[mine].tolist()))


def test_of_few_patients_nothing_is_told_and_all_train(make_dataset):
    dataset = make_dataset()
    census, patients = Census.of_dataset(dataset), patients_of(dataset)
    least = int(patients["north"][SPLITS.index("test"), 0]) + 1
    disclosed = as_disclosed(census, patients, least)
    for client in dataset.clients:
        for row, split in enumerate(SPLITS):
            for place in range(3):
                kept = disclosed.disclosed[client][row, place, :-1].sum()
                enough = split == "train" or patients[client][row, place] >= least
                assert kept == (census.counts[client][row, place, :-1].sum() if enough else 0)
    assert disclosed.disclosed["north"][SPLITS.index("test"), 0, :-1].sum() == 0, "one patient too few"
    assert disclosed.held("north", "test", ["light"]) == census.held("north", "test", ["light"])
    assert census.can_disclose("test", ["light"], 1)
    assert disclosed.can_disclose("test", ["light"], 1) == any(
        patients[client][SPLITS.index("test"), 0] >= least for client in dataset.clients
    )


def test_the_matrix_has_every_picture_once_and_marks_what_is_thin(make_dataset):
    dataset = make_dataset()
    census = Census.of_dataset(dataset)
    rows = matrix(census, patients_of(dataset), 5)
    for whose in ("all", "clients"):
        mine = [row for row in rows if (row.client is None) == (whose == "all")]
        assert sum(sum(row.pictures.values()) for row in mine) == sum(
            len(dataset.examples(client, split)) for client in dataset.clients for split in SPLITS
        )
    for row in rows:
        assert row.thin == tuple(
            name for name, n in row.pictures.items() if n < THIN and name != "unlabelled"
        )
        if row.client is None or row.split == "train":
            assert row.disclosed is None
        else:
            assert row.disclosed == (row.patients >= 5)


def test_every_stage_is_planned_and_changes_no_weight(make_job, make_dataset, federate_block, tmp_path):
    job, dataset = make_job(stages=[federate_block(rounds=3), {"stage": "export"}]), make_dataset()
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    before = {name: tensor.clone() for name, tensor in float_state(model).items()}
    planned = plan_stages(job, dataset, Census.of_dataset(dataset), model, tmp_path)
    federate, export = planned
    assert federate.plan.rounds == 3
    assert export is None
    for name, tensor in float_state(model).items():
        assert np.array_equal(tensor.numpy(), before[name].numpy())


CALIBRATED = [
    {"stage": "federate", "rounds": 1, "objective": {"name": "supervised"}, "aggregator": {"name": "fedavg"}},
    {"stage": "export"},
    {"stage": "calibrate"},
]
PERSONAL = [
    CALIBRATED[0],
    {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}},
]


def flat(text):
    return " ".join(re.sub(r"[│┃]", " ", text).split())


BROKEN = {
    "weights of another name": (
        {"model": {"name": "resnet18", "weights": "imagenet"}},
        ["model.weights", "imagenet", "none"],
    ),
    "calibration without pictures": (
        {
            "stages": CALIBRATED,
            "data": {"split": {"train": 0.6, "validation": 0.2, "calibration": 0, "test": 0.2}},
        },
        [
            "stages.2 (calibrate)",
            "no hospital holds 2 labelled calibration pictures",
            "data.split.calibration",
        ],
    ),
    "calibration of too few patients at each hospital": (
        {"stages": CALIBRATED, "privacy": {"min_count": 30}},
        ["stages.2 (calibrate)", "no hospital holds 30 labelled calibration pictures", "privacy.min_count"],
    ),
    "personal models without validation": (
        {
            "stages": PERSONAL,
            "data": {"split": {"train": 0.7, "validation": 0, "calibration": 0.1, "test": 0.2}},
        },
        ["stages.1 (personalize)", "no validation pictures of subgroup light, dark", "data.split.validation"],
    ),
    "the best round of none that is judged": (
        {
            "stages": [{**CALIBRATED[0], "keep": "best", "evaluate_on": "validation"}],
            "data": {"split": {"train": 0.7, "validation": 0, "calibration": 0.1, "test": 0.2}},
        },
        ["stages.0 (federate)", "keep: best has nothing to go by", "data.split.validation"],
    ),
    "more answers than clients": (
        {"engine": {"min_clients": 3}},
        ["stages.0 (federate)", "engine.min_clients is 3", "only 2 clients", "Lower it"],
    ),
    "an exchange that judges without a server": (
        {
            "stages": [
                {
                    **CALIBRATED[0],
                    "exchange": {"name": "fedauxpeer"},
                }
            ]
        },
        ["stages.0.exchange", "fedauxpeer"],
    ),
    "models of subgroups by which nobody can be routed": (
        {"stages": PERSONAL, "data": {"subgroups": {"column": "site"}, "clients": {"by": "iid", "count": 2}}},
        ["personalize needs data.subgroups by skin tone", "per: client"],
    ),
    "one class to tell from none": (
        {"data": {"label_map": {"MEL": "x", "NV": "x", "BCC": "x", "BKL": "x"}}},
        ["stages.0 (federate)", "the pictures have 1 (x)", "data.label_map"],
    ),
    "batches of one picture": (
        {"stages": [{**CALIBRATED[0], "objective": {"name": "supervised", "batch_size": 1}}]},
        ["stages.0 (federate)", "objective.batch_size is 1", "batch normalisation"],
    ),
    "a group of a name that figures have": (
        {
            "data": {
                "subgroups": {"scale": "fitzpatrick", "groups": {"undeclared": [1, 2, 3], "dark": [4, 5, 6]}}
            }
        },
        ["data.subgroups", "undeclared", "rename it"],
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_job_that_would_fail_is_refused(train_command, job_file, tiny, name):
    changes, disclosed = BROKEN[name]
    job = {**tiny, **changes}
    if "data" in changes:
        job["data"] = {**tiny["data"], **changes["data"]}
    ended = train_command("--check", job_file(job))
    assert ended.code == (1 if name == "more answers than clients" else 2), "a rule refuses, or bad input"
    for words in disclosed:
        assert words in flat(ended.err), ended.err


def test_a_key_given_twice_is_refused_with_both_lines(train_command, job_file, tiny):
    path = job_file(tiny)
    path.write_text(path.read_text() + "seed: 4\n")
    first = path.read_text().splitlines().index("seed: 3") + 1
    ended = train_command("--check", path)
    assert ended.code == 2
    assert "seed" in ended.err
    assert str(first) in ended.err
    assert str(len(path.read_text().splitlines())) in ended.err


def test_a_gpu_that_is_not_there_is_refused(train_command, job_file, tiny, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ended = train_command("--check", job_file({**tiny, "engine": {"device": "cuda"}}))
    assert ended.code == 2
    assert "engine.device is cuda" in flat(ended.err)


def test_what_check_finds_is_written_where_results_go(train_command, job_file, tiny, tmp_path):
    assert train_command("--check", job_file(tiny), "--out", tmp_path / "run").code == 0
    disclosed = json.loads((tmp_path / "run" / "check.json").read_text())
    assert disclosed["seconds_of_a_batch"] > 0
    assert {row["client"] for row in disclosed["matrix"]} == {None, "light", "dark"}
    assert train_command(job_file(tiny), "--out", tmp_path / "run").code == 0, "the run goes there, too"

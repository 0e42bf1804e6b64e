from dataclasses import replace

import numpy as np
import pytest

from training.data.dataset import SPLITS
from training.errors import JobError
from training.federation.census import Census
from training.jobs.preflight import THIN, as_told, matrix, patients_of, plan_stages
from training.models import initial_model
from training.models.groups import float_state


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
    told = as_told(census, patients, least)
    for client in dataset.clients:
        for row, split in enumerate(SPLITS):
            for place in range(3):
                kept = told.told[client][row, place, :-1].sum()
                enough = split == "train" or patients[client][row, place] >= least
                assert kept == (census.counts[client][row, place, :-1].sum() if enough else 0)
    assert told.told["north"][SPLITS.index("test"), 0, :-1].sum() == 0, "one patient too few"
    assert told.held("north", "test", ["light"]) == census.held("north", "test", ["light"])
    assert census.can_tell("test", ["light"], 1)
    assert told.can_tell("test", ["light"], 1) == any(
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
            assert row.told is None
        else:
            assert row.told == (row.patients >= 5)


def test_a_federation_of_a_server_alone_and_a_client_called_all_have_their_rows(make_dataset):
    census, patients = Census.of_dataset(make_dataset()), patients_of(make_dataset())
    alone = replace(census, counts={"server": census.counts["north"]})
    rows = matrix(alone, {"server": patients["north"]}, 1)
    assert {row.client for row in rows} == {None, "server"}
    assert not any(sum(row.pictures.values()) for row in rows if row.client is None)
    named = replace(census, counts={"all": census.counts["north"]})
    assert [row for row in matrix(named, {"all": patients["north"]}, 1) if row.client == "all"]


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


def test_planning_names_the_stage_that_would_stop(make_job, make_dataset, federate_block, tmp_path):
    job, dataset = make_job(stages=[federate_block(keep="best")], privacy={"min_count": 1000}), make_dataset()
    model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
    with pytest.raises(JobError, match=r"stages\.0 \(federate\): keep: best has nothing to go by"):
        plan_stages(job, dataset, Census.of_dataset(dataset), model, tmp_path)

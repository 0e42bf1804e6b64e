"""What several processes cannot divide among them is refused before anything is trained."""

import pytest
import torch
from pydantic import ValidationError

from training.algorithms.objectives import OBJECTIVES
from training.errors import JobError
from training.jobs.divided import require_divided, require_gpus
from training.jobs.job import Job
from training.jobs.try_model import try_model

WITHOUT_STATISTICS = {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "norm_layer": "groupnorm1"}}
SETTINGS = {"dp-sgd": {"noise_multiplier": 1.0}, "beit": {"tokenizer": {"name": "codebook"}}}


def test_a_job_says_in_how_many_processes_a_client_trains_and_its_identity_changes_with_its_weights(make_job):
    alone, together = make_job(), make_job(engine={"processes_per_client": 2})
    assert make_job(engine={"processes_per_client": 1}).digest == alone.digest
    assert together.digest != alone.digest


@pytest.mark.parametrize("name", [name for name in OBJECTIVES.own if name != "dp-sgd"])
def test_an_objective_is_divided_where_it_says_that_it_can_be(make_job, name):
    kind = OBJECTIVES.own[name]
    block = {
        "stage": "pretrain" if kind.self_supervised else "federate",
        "rounds": 1,
        "objective": {"name": name, **SETTINGS.get(name, {})},
        "aggregator": {"name": "fedavg"},
    }
    if kind.shares_features:
        block["exchange"] = {"name": "features"}
    if kind.shares_relations:
        block["exchange"] = {"name": "relations"}
    make_job(stages=[block])
    if kind.mean_of_pictures:
        assert make_job(stages=[block], engine={"processes_per_client": 2}).stages[0].divided.divides
        return
    with pytest.raises(
        ValidationError, match=f"2 processes cannot divide the batches of objective {name}, .*"
    ):
        make_job(stages=[block], engine={"processes_per_client": 2})


def test_the_refusal_names_what_is_allowed(make_job):
    block = {
        "stage": "federate",
        "rounds": 1,
        "objective": {"name": "fixmatch"},
        "aggregator": {"name": "fedavg"},
    }
    with pytest.raises(ValidationError, match="train in one process, or use one of supervised, rotation"):
        make_job(stages=[block], engine={"processes_per_client": 2})


def test_a_batch_has_a_picture_for_each_process(make_job):
    with pytest.raises(ValidationError, match="batch_size is 6, and 8 processes are to divide a batch"):
        make_job(engine={"processes_per_client": 8})


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ({"workers": 2}, "workers is 2 and processes_per_client is 2: either clients"),
        ({"name": "nvflare"}, "each hospital says itself in how many processes it trains"),
    ],
)
def test_what_says_something_else_of_processes_is_refused(make_job, engine, reason):
    with pytest.raises(ValidationError, match=reason):
        make_job(engine={"processes_per_client": 2, **engine})


def test_a_stage_on_features_is_trained_in_one_process_and_never_refused(make_job):
    block = {
        "stage": "federate",
        "rounds": 1,
        "objective": {"name": "supervised", "batch_size": 2},
        "aggregator": {"name": "fedavg"},
        "trains": {"name": "head"},
    }
    model = {**WITHOUT_STATISTICS, "weights": "imagenet"}
    job = make_job(stages=[block], model=model, engine={"processes_per_client": 4})
    assert job.stages[0].divided is None


@pytest.mark.parametrize(("gpus", "fits"), [(0, True), (1, False), (2, False), (3, True), (8, True)])
def test_every_process_needs_a_gpu_of_its_own_where_there_are_any(monkeypatch, gpus, fits):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    require_gpus("cpu", 3)
    require_gpus("auto", 1)
    if fits:
        require_gpus("auto", 3)
        return
    with pytest.raises(JobError, match=f"3 processes are to train together, and torch finds {gpus} GPU"):
        require_gpus("auto", 3)


def test_batch_normalisation_is_refused_on_a_processor_and_what_holds_it_still_is_not(make_job):
    with pytest.raises(JobError, match=r"stage federate: encoder.bn1 gathers statistics of a batch"):
        try_model(make_job(engine={"processes_per_client": 2}))
    try_model(make_job(engine={"processes_per_client": 2}, model=WITHOUT_STATISTICS))
    held = make_job(
        engine={"processes_per_client": 2},
        federate={"trains": {"name": "last", "blocks": 1}},
        model={"weights": "imagenet"},
    )
    require_divided(held.model_copy(update={"model": make_job().model}), held.stages, 2, "cpu")
    try_model(make_job())


@pytest.mark.parametrize("statistics", [True, False])
def test_a_personal_model_whose_statistics_move_is_refused_before_the_stages_in_front_of_it(
    make_job, federate_block, statistics
):
    """`norm` trains a part of the model, and by default the statistics of that move."""
    still = federate_block(trains={"name": "last", "blocks": 1})
    norm = {"stage": "personalize", "strategy": {"name": "norm", "epochs": 1, "statistics": statistics}}
    held = make_job(stages=[still, norm], model={"weights": "imagenet"})
    job = held.model_copy(update={"model": make_job().model})
    if not statistics:
        require_divided(job, job.stages, 2, "cpu")
        return
    with pytest.raises(JobError, match=r"stage personalize: encoder.bn1 gathers statistics of a batch"):
        require_divided(job, job.stages, 2, "cpu")


def test_a_hospital_s_own_number_is_held_against_the_job_as_it_came(make_job):
    job: Job = make_job(model=WITHOUT_STATISTICS)
    require_divided(job, job.stages, 2, "cpu")
    with pytest.raises(JobError, match=r"tiny: stage federate: objective.batch_size is 6, and 7 processes"):
        require_divided(job, job.stages, 7, "cpu")

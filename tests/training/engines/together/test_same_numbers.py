"""Whole runs in several processes against the same run in one, with all that a job may ask for."""

import pytest
from safetensors.torch import save_file

from tests.closeness import assert_close_in_norm
from tests.training.engines.together.asked import WITHOUT_STATISTICS
from training.models import build_model
from training.models.groups import float_state

pytestmark = pytest.mark.long
SGD = {"name": "sgd", "lr": 0.02, "momentum": 0.9, "state": "keep"}


@pytest.fixture
def blocks(make_job, federate_block, tmp_path):
    """The stages and the model of each run."""
    drawn = float_state(build_model(make_job().model, 5, seed=11))
    encoder = tmp_path / "encoder.safetensors"
    save_file({name.removeprefix("encoder."): tensor for name, tensor in drawn.items()}, encoder)
    given = {"weights": str(encoder)}  # with batch normalisation, which stands still
    return {
        "weighed and resized": (
            [
                {
                    "stage": "pretrain",
                    "rounds": 1,
                    "objective": {"name": "rotation", "batch_size": 4, "optimizer": SGD},
                    "aggregator": {"name": "fedavg"},
                },
                federate_block(
                    objective={
                        "sampling": "subgroup-balanced",
                        "batch_size": 4,
                        "clip_norm": 0.5,
                        "optimizer": SGD,
                    },
                    aggregator={"name": "group-dro"},
                    progressive_resizing={"rounds": 1, "image_size": 8},
                    sync={"name": "except", "groups": ["norm"]},
                ),
                {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}},
            ],
            WITHOUT_STATISTICS,
        ),
        "fewer pictures than processes": (
            [federate_block(objective={"sampling": "square-root", "samples": 2, "batch_size": 3})],
            WITHOUT_STATISTICS,
        ),
        "last": ([federate_block(trains={"name": "last", "blocks": 2})], given),
        "lora": ([federate_block(trains={"name": "lora", "rank": 2})], given),
        "fine-tuned first": (
            [
                {
                    "stage": "finetune",
                    "epochs": 1,
                    "objective": {
                        "name": "supervised",
                        "class_weights": "inverse-frequency",
                        "batch_size": 6,
                    },
                },
                federate_block(aggregator={"name": "fedauto"}),
            ],
            WITHOUT_STATISTICS,
        ),
    }


def models_of(ran):
    return {
        f"{key} {model} {name}": tensor
        for key, stage in ran.result.stages.items()
        for model, weights in stage.outcome.models.items()
        for name, tensor in weights.items()
    }


@pytest.mark.parametrize(
    ("run", "within"),
    [
        ("weighed and resized", 1e-4),
        ("fewer pictures than processes", 1e-4),
        ("last", 1e-4),
        ("lora", 1e-4),
        ("fine-tuned first", 1e-4),
    ],
)
def test_three_processes_leave_what_one_leaves(make_job, run_job, tmp_path, blocks, run, within):
    stages, model = blocks[run]
    alone, together = (
        run_job(
            make_job(stages=stages, model=model, engine={"processes_per_client": processes}),
            out=tmp_path / f"{processes}",
        )
        for processes in (1, 3)
    )
    assert_close_in_norm(models_of(together), models_of(alone), within)
    for ours, theirs in zip(together.lines, alone.lines, strict=True):
        assert ours["answered"] == theirs["answered"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=within)

"""`trains: last`: the last blocks and the head learn and travel, and nothing else moves."""

import pytest
import torch
from safetensors.torch import save_file

from registry.bundle.cases import AGE, CaseInput
from training.algorithms.trainable import TrainsLast
from training.models import ModelConfig, build_model, initial_model
from training.models.classifier import float_state

LAST = {"rounds": 2, "trains": {"name": "last", "blocks": 1}, "evaluate_on": None}


@pytest.fixture
def weights(make_job, tmp_path):
    """A file of weights for the encoder."""
    drawn = float_state(build_model(make_job().model, 5, seed=11))
    path = tmp_path / "encoder.safetensors"
    save_file({name.removeprefix("encoder."): tensor for name, tensor in drawn.items()}, path)
    return str(path)


def moved(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_head_and_last_block_move_and_no_statistic_does(make_job, run_job, weights):
    job = make_job(federate=LAST, model={"weights": weights})
    after = run_job(job).weights()
    found = moved(float_state(initial_model(job.model, job.seed, 16, 2)), after)
    assert {name.split(".")[1] for name in found} == {"layer4", "fc"}
    assert not any("running" in name for name in found)
    # Only the second block of the last stage: timm's last layer of a ResNet.
    assert {name.split(".")[2] for name in found if "layer4" in name} == {"1"}


def test_only_what_learns_travels_once_a_client_has_the_rest(make_job, run_job, weights):
    ran = run_job(make_job(federate=LAST, model={"weights": weights}))
    state = ran.weights()
    part = 4 * sum(state[name].numel() for name in TrainsLast(blocks=1).moves(ran.result.context.model))
    whole = 4 * sum(tensor.numel() for tensor in state.values())
    first, second = ran.lines
    assert (first["bytes_down"], first["bytes_up"]) == (3 * whole, 3 * part)
    assert (second["bytes_down"], second["bytes_up"]) == (3 * part, 3 * part)


def test_the_best_round_can_be_kept(make_job, run_job, weights):
    block = {**LAST, "evaluate_on": "validation", "keep": "best"}
    job = make_job(federate=block, model={"weights": weights})
    ran = run_job(job)
    assert ran.result.stages["0-federate"].outcome.facts["kept_round"] in (1, 2)
    assert moved(float_state(initial_model(job.model, job.seed, 16, 2)), ran.weights())


def test_of_a_model_of_cases_fusion_and_head_learn_too():
    case = CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))
    config = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})
    found = TrainsLast(blocks=1).moves(initial_model(config, 0, 16, 3, case))
    assert {name.split(".")[0] for name in found} == {"encoder", "fusion", "head"}
    assert {name.split(".")[1] for name in found if name.startswith("encoder")} == {"layer4"}


def test_a_sync_beside_it_is_refused(make_job, weights):
    with pytest.raises(ValueError, match="says what travels, and so does sync none"):
        make_job(federate={**LAST, "sync": {"name": "none"}}, model={"weights": weights})

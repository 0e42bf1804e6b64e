"""The stage `federate` through a whole run.

`trainable: last`: the last blocks and the head learn and travel, and nothing else moves.

`progressive_resizing`: the first rounds train on small pictures, and all are judged at full size.
"""

import numpy as np
import pytest
import torch

from registry.bundle.cases import AGE, CaseInput
from training.algorithms.trainable import TrainableLastBlocks
from training.models import Classifier, ModelConfig, build_model, initial_model
from training.models.classifier import float_state


def test_the_test_figures_are_those_of_the_final_model(make_job, run_job, dataset):
    job = make_job(federate={"rounds": 1})
    ran = run_job(job)
    model = build_model(job.model, 2, seed=99)
    model.load_state_dict(ran.weights(), strict=False)
    confusion = {name: np.zeros((2, 2), dtype=int) for name in ("light", "dark", "undeclared")}
    for client in dataset.clients:
        examples = dataset.examples(client, "test")
        pixels = torch.from_numpy(examples.images.astype(np.float32) / 255).permute(0, 3, 1, 2)
        with torch.no_grad():
            answers = model.eval()(pixels).argmax(dim=1).numpy()
        names = np.array(["light", "dark", "undeclared"])[examples.subgroups]
        for name, label, answer in zip(names, examples.labels, answers, strict=True):
            confusion[name][label, answer] += 1

    blocks = ran.result.stages["0-federate"].outcome.test
    assert blocks.keys() == confusion.keys()
    for name, expected in confusion.items():
        np.testing.assert_array_equal(blocks[name].point.confusion, expected)
    test = ran.result.summary["test"]
    total = sum(confusion.values())
    assert test["n"] == total.sum() == 20
    assert test["accuracy"] == pytest.approx(np.trace(total) / total.sum())
    assert test["by_subgroup"]["dark"]["accuracy"] == pytest.approx(
        np.trace(confusion["dark"]) / confusion["dark"].sum()
    )


def test_the_same_job_gives_the_same_bytes_and_another_seed_others(make_job, run_job, tmp_path):
    block = {"rounds": 1, "evaluate_on": None}
    first, again, other = (
        run_job(make_job(federate=block, seed=seed), out=tmp_path / f"run {number}").weights()
        for number, seed in enumerate((7, 7, 8))
    )
    assert all(first[name].numpy().tobytes() == again[name].numpy().tobytes() for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


LAST = {"rounds": 2, "trainable": {"name": "last_blocks", "blocks": 1}, "evaluate_on": None}


@pytest.fixture
def weights(encoder_file):
    return encoder_file


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
    part = 4 * sum(
        state[name].numel() for name in TrainableLastBlocks(blocks=1).moves(ran.result.context.model)
    )
    whole = 4 * sum(tensor.numel() for tensor in state.values())
    first, second = ran.lines
    assert (first["bytes_down"], first["bytes_up"]) == (3 * whole, 3 * part)
    assert (second["bytes_down"], second["bytes_up"]) == (3 * part, 3 * part)


def test_of_a_model_of_cases_fusion_and_head_learn_too():
    case = CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))
    config = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})
    found = TrainableLastBlocks(blocks=1).moves(initial_model(config, 0, 16, 3, case))
    assert {name.split(".")[0] for name in found} == {"encoder", "fusion", "head"}
    assert {name.split(".")[1] for name in found if name.startswith("encoder")} == {"layer4"}


SMALL = {"rounds": 3, "progressive_resizing": {"rounds": 2, "image_size": 8}}


@pytest.fixture
def seen(monkeypatch):
    """Whether the encoder was in training, and the pixels of the pictures that it saw, in order."""
    sizes = []

    def features(model, images, inner=Classifier.features):
        sizes.append((model.training, images.shape[-1]))
        return inner(model, images)

    monkeypatch.setattr(Classifier, "features", features)
    return sizes


def test_only_training_in_the_first_rounds_sees_small_pictures(make_job, run_job, seen):
    run_job(make_job(federate=SMALL))
    trained = [size for training, size in seen if training]
    batches = len(trained) // 3
    assert trained == [8] * 2 * batches + [16] * batches
    assert {size for training, size in seen if not training} == {16}

"""`progressive_resizing`: the first rounds train on small pictures, and all are judged at full size."""

import pytest
import torch

from training.models import Classifier

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


def test_one_round_of_two_on_small_pictures_gives_another_model(make_job, run_job, tmp_path):
    ran = {
        name: run_job(make_job(federate=block), out=tmp_path / name).weights()
        for name, block in {"small": SMALL, "plain": {"rounds": 3}}.items()
    }
    assert not torch.equal(*(weights["encoder.conv1.weight"] for weights in ran.values()))


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_run_that_was_killed_goes_on_at_the_size_of_its_round(make_job, run_job, run_killed, rounds):
    """Killed after the second of four rounds, before, at and after the change; with mixtures."""
    block = {
        "rounds": 4,
        "progressive_resizing": {"rounds": rounds, "image_size": 8},
        "objective": {"name": "supervised", "mixup": 0.4, "label_smoothing": 0.1},
    }
    job = make_job(federate=block)
    whole, resumed = run_job(job).weights(), run_killed(job).weights()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_the_last_rounds_are_at_the_size_of_the_job(make_job):
    with pytest.raises(ValueError, match=r"rounds is 3 of 3 rounds, and the last ones have to be at data\."):
        make_job(federate={**SMALL, "progressive_resizing": {"rounds": 3, "image_size": 8}})


@pytest.mark.parametrize("size", [16, 32])
def test_pictures_do_not_begin_as_large_or_larger(make_job, size):
    with pytest.raises(ValueError, match=rf"image_size is {size}, and pictures have 16 pixels on both sides"):
        make_job(federate={**SMALL, "progressive_resizing": {"rounds": 1, "image_size": size}})


def test_features_that_are_made_once_have_no_size(make_job):
    with pytest.raises(ValueError, match="trains: head trains on features that are made once; remove it"):
        make_job(federate={**SMALL, "trains": {"name": "head"}})

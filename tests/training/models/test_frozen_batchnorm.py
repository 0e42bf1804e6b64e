"""Statistics that stand still in training."""

import torch
from torch import nn

from registry.bundle.cases import AGE, CaseInput
from tests.closeness import assert_close_in_norm
from training.models import ModelConfig, build_model, initial_model
from training.models.case_batch import CaseBatch
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

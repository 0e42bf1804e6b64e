"""What is behind an encoder, and the linear probe."""

import numpy as np
import pytest
import torch

from registry.bundle.cases import AGE, CaseInput
from tests.training.models.conftest import stirred
from training.errors import JobError
from training.models import ModelConfig, initial_model
from training.models.classifier import CaseBatch, float_state, group_names
from training.models.probe import LinearProbe, behind_encoder

MODELS = [
    ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]}),
    ModelConfig(name="vit_tiny_patch16_224", options={"depth": 1, "embed_dim": 12, "num_heads": 3}),
    ModelConfig(name="convnext_atto", options={"depths": [1, 1, 1, 1], "dims": [4, 8, 8, 8]}),
]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.name)
def test_features_say_what_their_pictures_say_by_tensors_of_its_own_with_their_names(config):
    model = stirred(initial_model(config, 0, 32, 3))
    behind = behind_encoder(model).eval()
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(behind(model.features(images)), model(images))
    assert behind.num_features == model.features(images).shape[1]
    assert set(float_state(behind)) == group_names(model, "head") == group_names(behind, "head")
    before = float_state(model)
    for name, tensor in float_state(behind).items():
        assert torch.equal(tensor, before[name])
        tensor.zero_()
        assert before[name].abs().sum() > 0


def test_of_cases_it_is_fusion_and_head():
    case = CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))
    model = stirred(initial_model(MODELS[0], 0, 16, 3, case))
    behind = behind_encoder(model).eval()
    assert set(float_state(behind)) == group_names(model, "head")
    batch = CaseBatch(
        torch.rand(2, 2, 3, 16, 16), torch.tensor([[1, 0], [1, -1]]), torch.tensor([[30.0], [torch.nan]])
    )
    features = CaseBatch(model.features_of(batch), batch.kinds, batch.context)
    torch.testing.assert_close(behind(features), model(batch))


def test_an_encoder_without_a_linear_layer_at_its_end_is_refused():
    model = initial_model(MODELS[0], 0, 16, 3)
    model.encoder.get_classifier = torch.nn.Identity
    with pytest.raises(JobError, match="is a Identity, and what trains on a frozen encoder is a linear one"):
        behind_encoder(model)


RESNET = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]})


@pytest.fixture
def probe():
    """Of three classes, with weights that are not zero."""
    made = LinearProbe(initial_model(RESNET, 0, 16, 3)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return made


def z(features):
    """By hand, in double precision."""
    features = features.astype(np.float64)
    return (features - features.mean()) / np.sqrt(features.var() + 1e-5)


def test_it_begins_at_zero_and_has_nothing_of_the_model():
    probe = LinearProbe(initial_model(RESNET, 0, 16, 3))
    state = float_state(probe)
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {
        "head.weight": (3, 8),
        "head.bias": (3,),
    }
    assert all(not tensor.any() for tensor in state.values())
    assert probe.head_names == tuple(state)
    assert (probe.num_classes, probe.num_features) == (3, 8)


def test_each_picture_is_normalised_by_itself(probe):
    features = torch.rand(5, 8) * 7 + 3
    weight, bias = (tensor.numpy().astype(np.float64) for tensor in float_state(probe).values())
    expected = np.stack([weight @ z(one) + bias for one in features.numpy()])
    np.testing.assert_allclose(probe(features).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(probe(features[:1]), probe(features)[:1])


def test_a_case_is_the_mean_of_its_pictures_and_nothing_else_of_it(probe):
    features = torch.rand(3, 2, 8)
    kinds, context = torch.tensor([[1, 0], [0, -1], [-1, 1]]), torch.tensor([[30.0], [torch.nan], [50.0]])
    logits = probe(CaseBatch(features, kinds, context))
    weight, bias = (tensor.numpy().astype(np.float64) for tensor in float_state(probe).values())
    for row, case in enumerate(features.numpy()):
        seen = [z(picture) for picture, kind in zip(case, kinds[row], strict=True) if kind >= 0]
        np.testing.assert_allclose(
            logits[row].detach().numpy(), weight @ np.mean(seen, axis=0) + bias, rtol=1e-4, atol=1e-5
        )
    others = CaseBatch(features, torch.where(kinds >= 0, 1 - kinds, kinds), context + 1)
    torch.testing.assert_close(probe(others), logits)

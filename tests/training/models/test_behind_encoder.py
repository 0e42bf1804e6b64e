"""What is behind an encoder says of its features what the whole classifier says of pictures."""

import pytest
import torch

from registry.bundle.cases import AGE, CaseInput
from training.errors import JobError
from training.models import ModelConfig, initial_model
from training.models.behind_encoder import behind_encoder
from training.models.case_batch import CaseBatch
from training.models.groups import float_state, group_names

MODELS = [
    ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]}),
    ModelConfig(name="vit_tiny_patch16_224", options={"depth": 1, "embed_dim": 12, "num_heads": 3}),
    ModelConfig(name="convnext_atto", options={"depths": [1, 1, 1, 1], "dims": [4, 8, 8, 8]}),
]


def moved(model):
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=random))
    return model.eval()


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.name)
def test_features_say_what_their_pictures_say(config):
    model = moved(initial_model(config, 0, 32, 3))
    behind = behind_encoder(model).eval()
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(behind(model.features(images)), model(images))
    assert behind.num_features == model.features(images).shape[1]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.name)
def test_its_tensors_have_their_names_and_are_its_own(config):
    model = moved(initial_model(config, 0, 32, 3))
    behind = behind_encoder(model)
    assert set(float_state(behind)) == group_names(model, "head") == group_names(behind, "head")
    before = float_state(model)
    for name, tensor in float_state(behind).items():
        assert torch.equal(tensor, before[name])
        tensor.zero_()
        assert before[name].abs().sum() > 0


def test_of_cases_it_is_fusion_and_head():
    case = CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))
    model = moved(initial_model(MODELS[0], 0, 16, 3, case))
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

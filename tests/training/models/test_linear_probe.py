"""A linear probe: a linear layer that begins at zero, on features normalised picture by picture."""

import numpy as np
import pytest
import torch

from registry.bundle.cases import AGE, CaseInput
from training.models import ModelConfig, initial_model
from training.models.case_batch import CaseBatch
from training.models.groups import float_state
from training.models.linear_probe import LinearProbe

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


def test_in_training_no_picture_of_a_case_is_left_out(probe):
    case = CaseInput(slots=2, kinds=("close-up",), facts=(AGE,))
    of_cases = LinearProbe(initial_model(RESNET, 0, 16, 3, case))
    of_cases.load_state_dict(probe.state_dict())
    batch = CaseBatch(torch.rand(64, 2, 8), torch.ones(64, 2, dtype=torch.long), torch.rand(64, 1))
    torch.testing.assert_close(of_cases.train()(batch), probe(batch))

"""A classifier of cases: what it shows its encoder, and that any part of a case is answered."""

import numpy as np
import pytest
import torch

from registry.bundle.cases import AGE, SEX, CaseInput
from training.data.cases import Cases
from training.data.dataset import Examples
from training.models import ModelConfig, initial_model
from training.models.case_batch import CaseBatch, as_inputs
from training.models.fusion import FusionConfig
from training.models.groups import float_state, group_names

CASE = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))
CONFIG = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]}, fusion=FusionConfig(width=4))
CPU = torch.device("cpu")


@pytest.fixture
def model():
    made = initial_model(CONFIG, 0, 16, 3, CASE).eval()
    with torch.no_grad():
        made.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    return made


@pytest.fixture
def examples():
    images = np.random.default_rng(0).integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)
    cases = Cases(
        np.array([[4, 1], [2, -1], [0, 5]]),
        np.array([[1, 2], [2, -1], [0, 1]]),
        np.array([[70, 1], [np.nan, 0], [np.nan, np.nan]], np.float32),
    )
    zeros = np.zeros(3, np.int64)
    return Examples(images, cases.pictures[:, 0], zeros, zeros, np.arange(3), cases=cases)


def test_examples_become_cases(examples):
    batch = as_inputs(examples, np.array([2, 0]), CPU)
    assert isinstance(batch, CaseBatch)
    assert batch.kinds.tolist() == [[0, 1], [1, 2]]
    expected = examples.images[[[0, 5], [4, 1]]].astype(np.float32) / 255
    np.testing.assert_allclose(batch.images.permute(0, 1, 3, 4, 2).numpy(), expected)
    np.testing.assert_array_equal(batch.context.numpy(), examples.cases.context[[2, 0]])


def test_features_of_a_frozen_encoder_say_the_same_as_its_pictures(model, examples):
    batch = as_inputs(examples, np.arange(3), CPU)
    features = model.features_of(batch)
    shown = CaseBatch(features, batch.kinds, batch.context)
    torch.testing.assert_close(model(shown), model(batch))
    noise = CaseBatch(features + 100.0 * ~batch.present[..., None], batch.kinds, batch.context)
    torch.testing.assert_close(model(noise), model(batch))


def test_a_picture_by_itself_is_a_case_of_unknown_kind_without_facts(model, examples):
    picture = as_inputs(examples, np.array([1]), CPU).images[:, 0]
    nothing = torch.full((1, 2), torch.nan)
    case = CaseBatch(picture[:, None], torch.tensor([[0]]), nothing)
    torch.testing.assert_close(model(picture), model(case))
    other = CaseBatch(picture[:, None], torch.tensor([[2]]), nothing)
    assert not torch.allclose(model(picture), model(other))


def test_every_case_is_as_likely_of_any_class_at_first(examples):
    fresh = initial_model(CONFIG, 0, 16, 3, CASE).eval()
    assert torch.equal(fresh(as_inputs(examples, np.arange(3), CPU)), torch.zeros(3, 3))


def test_in_training_parts_are_left_out_and_later_not(model, examples):
    batch = as_inputs(examples, np.zeros(64, np.int64), CPU)
    assert model(batch).std(dim=0).max() < 1e-5
    model.train()
    model.encoder.eval()
    assert model(batch).std(dim=0).max() > 0.1


def test_all_behind_the_encoder_is_its_head(model):
    head = group_names(model, "head")
    assert {name.partition(".")[0] for name in head} == {"fusion", "head"}
    assert {name for name in float_state(model) if name not in head} == {
        name for name in float_state(model) if name.startswith("encoder.")
    }

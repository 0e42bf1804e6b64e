"""Cases to logits: the fusion by hand, and the classifier."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from registry.bundle.cases import AGE, SEX, SITE, CaseInput
from training.data.dataset import Cases, Examples
from training.models import ModelConfig, initial_model
from training.models.cases import BANDS, Fusion, FusionConfig
from training.models.classifier import CaseBatch, as_inputs

FEATURES = 6
CASE = CaseInput(slots=3, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX, SITE))
KINDS = torch.tensor([[1, 2, -1], [2, 2, 0], [0, -1, -1], [1, 1, 1]])
NAN = math.nan


@pytest.fixture
def fusion():
    torch.manual_seed(3)
    return Fusion(FEATURES, CASE, FusionConfig(width=4)).eval()


def made_up():
    random = torch.Generator().manual_seed(1)
    features = torch.randn(len(KINDS), CASE.slots, FEATURES, generator=random)
    context = torch.tensor([[70, 1, 2], [NAN, 0, NAN], [NAN, NAN, NAN], [0, 1, 7]])
    return features, context


def by_hand(fusion, features, kinds, context):
    """The module's equation, case by case."""
    rows = []
    for pictures, of, facts in zip(features, kinds.tolist(), context, strict=True):
        groups = [
            [
                F.layer_norm(picture, (FEATURES,))
                for picture, kind in zip(pictures, of, strict=True)
                if kind == k
            ]
            for k in range(3)
        ]
        there = sum(bool(group) for group in groups)
        blocks = [sum(g) / len(g) / there if g else torch.zeros(FEATURES) for g in groups]
        shares = torch.tensor([bool(g) / there for g in groups])
        rows.append(torch.cat([*blocks, shares, fusion.context(columns(facts))]))
    return torch.stack(rows)


def columns(facts):
    age, sex, site = facts.tolist()
    ramps = [0.0] * BANDS if math.isnan(age) else [min(max(age / 24 - band, 0), 1) for band in range(BANDS)]
    return torch.tensor(
        [
            math.isnan(age),
            *ramps,
            math.isnan(sex),
            *(sex == value for value in range(2)),
            math.isnan(site),
            *(site == value for value in range(8)),
        ],
        dtype=torch.float32,
    )


def test_it_is_its_equation(fusion):
    features, context = made_up()
    expected = by_hand(fusion, features, KINDS, context)
    assert expected.shape[1] == fusion.width
    torch.testing.assert_close(fusion(features, KINDS, context), expected)


def cases(count=20000):
    kinds = torch.tensor([[1, 2, -1]]).repeat(count, 1)
    return CaseBatch(torch.zeros(count, 3, FEATURES), kinds, torch.tensor([[70.0, 1, 2]]).repeat(count, 1))


def test_parts_are_left_out_as_often_as_asked():
    config = FusionConfig(drop_pictures=0.3, drop_facts=0.2, drop_kinds=0.1)
    torch.manual_seed(0)
    left = Fusion(FEATURES, CASE, config).drop(cases())
    there = left.present
    assert there.any(dim=1).all()
    assert not there[:, 2].any()
    both = there[:, 0] & there[:, 1]
    assert both.float().mean().item() == pytest.approx(0.7**2, abs=0.015)
    assert there[:, 0].float().mean().item() == pytest.approx(0.7 + 0.3 * 0.3 / 2, abs=0.015)
    unsaid = (left.kinds == 0)[there]
    assert unsaid.float().mean().item() == pytest.approx(0.1, abs=0.01)
    known = ~torch.isnan(left.context)
    assert (~known).all(dim=1).float().mean().item() == pytest.approx(0.2 + 0.2 / 8, abs=0.015)
    assert known.all(dim=1).float().mean().item() == pytest.approx(0.6 + 0.2 / 8, abs=0.015)


def test_a_case_without_facts_has_none_in_its_embedding():
    fusion = Fusion(FEATURES, CaseInput(slots=1), FusionConfig())
    assert fusion.context is None
    embedding = fusion(torch.randn(2, 1, FEATURES), torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, 0))
    assert embedding.shape == (2, FEATURES + 1)


CASE_CASES = CaseInput(slots=2, kinds=("close-up", "dermoscopic"), facts=(AGE, SEX))
CONFIG = ModelConfig(name="resnet18", options={"channels": [4, 4, 8, 8]}, fusion=FusionConfig(width=4))
CPU = torch.device("cpu")


@pytest.fixture
def model():
    made = initial_model(CONFIG, 0, 16, 3, CASE_CASES).eval()
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


def test_in_training_parts_are_left_out_and_later_not(model, examples):
    batch = as_inputs(examples, np.zeros(64, np.int64), CPU)
    assert model(batch).std(dim=0).max() < 1e-5
    model.train()
    model.encoder.eval()
    assert model(batch).std(dim=0).max() > 0.1

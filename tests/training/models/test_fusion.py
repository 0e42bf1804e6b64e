"""Fusion against a plain loop; neither empty slots nor the order of pictures count."""

import math

import pytest
import torch
import torch.nn.functional as F

from registry.bundle.cases import AGE, SEX, SITE, CaseInput
from training.models.case_batch import CaseBatch
from training.models.fusion import BANDS, Fusion, FusionConfig

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


def test_what_is_in_an_empty_slot_does_not_count(fusion):
    features, context = made_up()
    other = torch.where((KINDS < 0)[..., None], 1e6, features)
    torch.testing.assert_close(fusion(other, KINDS, context), fusion(features, KINDS, context))


def test_the_order_of_slots_does_not_count(fusion):
    features, context = made_up()
    torch.testing.assert_close(
        fusion(features.flip(1), KINDS.flip(1), context), fusion(features, KINDS, context)
    )


def test_with_several_kinds_a_linear_layer_says_the_mean_of_what_it_says_of_each(fusion):
    features, context = made_up()
    head = torch.nn.Linear(fusion.width, 5, bias=False)

    def said(kinds):
        embedding = fusion(features[:1], torch.tensor([kinds]), context[:1])
        embedding[:, fusion.kinds * (FEATURES + 1) :] = 0  # of the pictures alone
        return head(embedding)

    torch.testing.assert_close(said([1, 2, -1]), (said([1, -1, -1]) + said([-1, 2, -1])) / 2)


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

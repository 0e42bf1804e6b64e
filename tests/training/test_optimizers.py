from math import cos, pi

import pytest
import torch

from training.optimizers import OptimizerConfig, ScheduleConfig, build_optimizer


def test_constant_is_constant():
    schedule = ScheduleConfig()
    assert {schedule.factor(round_, 5, epoch, 2) for round_ in range(1, 6) for epoch in (0, 1)} == {1.0}


def test_cosine_falls_from_one_towards_zero_over_all_epochs_of_all_rounds():
    schedule = ScheduleConfig(name="cosine")
    factors = [schedule.factor(round_, 4, epoch, 2) for round_ in range(1, 5) for epoch in (0, 1)]
    assert factors == pytest.approx([(1 + cos(pi * step / 8)) / 2 for step in range(8)], rel=1e-14)
    assert factors[0] == 1.0
    assert factors[4] == pytest.approx(0.5)
    assert factors[-1] > 0


def test_warm_up_is_linear_ends_at_the_base_rate_and_is_followed_by_the_schedule():
    schedule = ScheduleConfig(name="cosine", warmup_rounds=2)
    factors = [schedule.factor(round_, 6, epoch, 2) for round_ in range(1, 7) for epoch in (0, 1)]
    cosine = [(1 + cos(pi * step / 8)) / 2 for step in range(8)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1.0, *cosine], rel=1e-14)


def test_warm_up_before_a_constant_rate():
    schedule = ScheduleConfig(warmup_rounds=2)
    assert [schedule.factor(round_, 4, 0, 1) for round_ in range(1, 5)] == [0.5, 1.0, 1.0, 1.0]


def test_a_warm_up_as_long_as_the_stage_never_divides_by_zero():
    schedule = ScheduleConfig(name="cosine", warmup_rounds=3)
    assert [schedule.factor(round_, 3, 0, 1) for round_ in (1, 2, 3)] == pytest.approx([1 / 3, 2 / 3, 1])


@pytest.mark.parametrize(
    ("config", "kind", "settings"),
    [
        (
            OptimizerConfig(name="sgd", lr=0.3, momentum=0.8, weight_decay=0.1),
            torch.optim.SGD,
            {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.1},
        ),
        (
            OptimizerConfig(name="adam", lr=0.2, betas=(0.8, 0.99)),
            torch.optim.Adam,
            {"lr": 0.2, "betas": (0.8, 0.99), "weight_decay": 0.0},
        ),
        (
            OptimizerConfig(name="adamw", lr=0.1, betas=(0.9, 0.95), weight_decay=0.05),
            torch.optim.AdamW,
            {"lr": 0.1, "betas": (0.9, 0.95), "weight_decay": 0.05},
        ),
    ],
)
def test_an_optimizer_is_the_one_that_was_asked_for_with_its_settings(config, kind, settings):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = build_optimizer(config, model)
    assert type(optimizer) is kind
    [group] = optimizer.param_groups
    assert {name: group[name] for name in settings} == settings
    assert [id(parameter) for parameter in group["params"]] == [id(p) for p in model.parameters()]

from math import cos, pi

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from training.algorithms.local_model import OptimizerConfig, ScheduleConfig, build_optimizer, parameter_groups
from training.errors import JobError
from training.models import Classifier, ModelConfig, build_model
from training.models.encoder_files import prepare_torchvision


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


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_an_optimizer_is_the_one_that_was_asked_for(name, kind):
    config = OptimizerConfig(name=name, lr=0.3, momentum=0.8, betas=(0.8, 0.99), weight_decay=0.1)
    optimizer = build_optimizer(config, torch.nn.Linear(2, 3))
    assert type(optimizer) is kind
    own = {"momentum": 0.8} if name == "sgd" else {"betas": (0.8, 0.99)}
    assert {"lr": 0.3, "weight_decay": 0.1, **own}.items() <= optimizer.param_groups[0].items()


@given(
    milestones=st.sets(st.integers(1, 12), min_size=1).map(sorted),
    gamma=st.floats(0.05, 0.95),
    epochs=st.integers(1, 3),
)
def test_steps_are_those_of_torch(milestones, gamma, epochs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma)
    schedule = ScheduleConfig(name="steps", milestones=milestones, gamma=gamma)
    for round_ in range(1, 15):
        rate = optimizer.param_groups[0]["lr"]
        for epoch in range(epochs):
            assert schedule.factor(round_, 14, epoch, epochs) == pytest.approx(rate, rel=1e-12)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "steps"}, r"steps needs `milestones`; give rounds, e\.g\. \[12, 16\]"),
        ({"milestones": [3]}, "constant does not use `milestones`; remove it"),
        ({"name": "cosine", "milestones": [3]}, "cosine does not use `milestones`"),
        ({"name": "steps", "milestones": [0, 3]}, r"\[0, 3\] does not rise from 1 on"),
        ({"name": "steps", "milestones": [3, 3]}, r"\[3, 3\] does not rise"),
        ({"name": "steps", "milestones": [5, 3]}, r"\[5, 3\] does not rise"),
        ({"name": "steps", "milestones": [2, 6], "warmup_rounds": 3}, "2 is within the warm-up of 3 rounds"),
        ({"name": "steps", "milestones": [2], "gamma": 1.0}, "less than 1"),
    ],
)
def test_steps_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ScheduleConfig.model_validate(settings)


RESNET = ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]})


def settings_by_name(optimizer, model):
    """What torch will use for each parameter: {name: (rate, factor, weight decay)}; each is there once."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [
        (names[id(parameter)], (group["lr"], group["lr_scale"], group["weight_decay"]))
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    assert sorted(name for name, _ in found) == sorted(names.values())
    return dict(found)


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_an_encoder_learns_at_its_share_of_the_rate_times_that_of_its_layer(decay):
    model = build_model(RESNET, 2, seed=1)
    plain = OptimizerConfig(lr=0.1, layer_decay=decay)
    slow = plain.model_copy(update={"encoder_rate": 0.2})
    before = settings_by_name(build_optimizer(plain, model), model)
    found = settings_by_name(build_optimizer(slow, model), model)
    for name, (rate, scale, _) in found.items():
        share = 1.0 if name in ("encoder.fc.weight", "encoder.fc.bias") else 0.2
        assert (rate, scale) == pytest.approx((share * before[name][0], share * before[name][1])), name


@pytest.mark.parametrize("decay_norms", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "vgg11",
        "vit_tiny_patch16_224",
        "swin_tiny_patch4_window7_224",
        "pit_ti_224",  # says nothing of its layers; timm then divides it by the number of tensors
    ],
)
def test_groups_are_those_that_timm_makes_of_the_encoder(name, decay_norms):
    prepare_torchvision()
    import timm
    from timm.optim import param_groups_layer_decay

    with torch.device("meta"):
        model = Classifier(timm.create_model(name, num_classes=2))
    spared = getattr(model.encoder, "no_weight_decay", set)()
    theirs = param_groups_layer_decay(
        model.encoder,
        weight_decay=0.05,
        no_weight_decay_list=set() if decay_norms else spared,
        weight_decay_exclude_1d=not decay_norms,
        layer_decay=0.7,
    )
    config = OptimizerConfig(layer_decay=0.7, weight_decay=0.05, decay_norms=decay_norms)

    def by_parameter(groups):
        return {
            id(parameter): (group["lr_scale"], group["weight_decay"])
            for group in groups
            for parameter in group["params"]
        }

    assert by_parameter(parameter_groups(config, model)) == by_parameter(theirs)
    assert len({scale for scale, _ in by_parameter(theirs).values()}) > 5


def test_layers_that_timm_cannot_tell_apart_are_refused():
    encoder = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    with pytest.raises(JobError, match=r"layer_decay: 0\.5 changes nothing, .* one layer only in Sequential"):
        build_optimizer(OptimizerConfig(layer_decay=0.5), Classifier(encoder))


def test_norms_are_spared_without_a_layer_decay():
    model = build_model(RESNET, 2, seed=1)
    config = OptimizerConfig(name="sgd", lr=0.1, weight_decay=0.3, decay_norms=False)
    optimizer = build_optimizer(config, model)
    expected = {name: (0.1, 1.0, 0.3 * (p.ndim > 1)) for name, p in model.named_parameters()}
    assert settings_by_name(optimizer, model) == expected
    assert len(optimizer.param_groups) == 2

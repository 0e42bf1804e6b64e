"""Momentum encoders against a plain loop, and the shape of heads with batch norm."""

import pytest
import torch
from torch import nn

from tests.closeness import assert_close_in_norm
from training.algorithms.objectives.moco import MoCo
from training.algorithms.objectives.momentum import projection_head
from training.models.classifier import float_state

SMALL = {"batch_size": 6, "features": 8}


def copy_of(network):
    return {name: tensor.clone() for name, tensor in float_state(network).items()}


def test_parameters_follow_by_hand_and_statistics_are_the_followers_own(begin_followed):
    task, network, frozen_copy = begin_followed(MoCo(**SMALL, momentum=0.9))
    follower, statistics = copy_of(frozen_copy), {}
    for step, batch in enumerate(task.batches(0)):
        task.loss(batch)
        statistics = {name: t.clone() for name, t in float_state(frozen_copy).items() if "running" in name}
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.1 * (step + 1))
        task.after_step()
        for name, parameter in network.named_parameters():
            follower[name] = 0.9 * follower[name] + 0.1 * parameter.detach()
            assert_close_in_norm(float_state(frozen_copy)[name], follower[name], 1e-6, name)
    for name, tensor in statistics.items():
        assert torch.equal(float_state(frozen_copy)[name], tensor)
        assert not torch.equal(float_state(network)[name], tensor)
    assert not any(parameter.requires_grad for parameter in frozen_copy.parameters())


def test_without_momentum_the_follower_is_the_network(begin_followed):
    task, network, frozen_copy = begin_followed(MoCo(**SMALL, momentum=0.0))
    task.loss(next(task.batches(0)))
    with torch.no_grad():
        network.heads.get_submodule("projector.2").weight.mul_(3)
    task.after_step()
    for parameter, leader in zip(frozen_copy.parameters(), network.parameters(), strict=True):
        assert torch.equal(parameter, leader)


@pytest.mark.parametrize("start", ["reset", "keep"])
def test_a_first_round_starts_from_the_received_network(begin_followed, start):
    _, network, frozen_copy = begin_followed(MoCo(**SMALL, momentum_encoder=start))
    for name, parameter in network.named_parameters():
        assert torch.equal(frozen_copy.get_parameter(name), parameter)
    assert frozen_copy.training


def test_what_is_kept_is_where_the_next_round_goes_on_and_reset_forgets_it(begin_followed):
    first, network, frozen_copy = begin_followed(MoCo(**SMALL, momentum=0.5, momentum_encoder="keep"))
    first.loss(next(first.batches(0)))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1)
    first.after_step()
    kept, left = first.keep(), copy_of(frozen_copy)
    assert set(kept) == {"features", "pictures"} | {f"momentum/{name}" for name in left}
    with torch.no_grad():
        for tensor in float_state(frozen_copy).values():
            tensor.mul_(2)  # as the next client's round in this process does

    _, _, frozen_copy = begin_followed(MoCo(**SMALL, momentum_encoder="keep"), round_=2, kept=kept)
    for name, tensor in float_state(frozen_copy).items():
        assert torch.equal(tensor, left[name])

    again, network, frozen_copy = begin_followed(MoCo(**SMALL), round_=2, kept=kept)
    for name, parameter in network.named_parameters():
        assert torch.equal(frozen_copy.get_parameter(name), parameter)
    assert set(again.keep()) == {"features", "pictures"}


def kinds(layers):
    return [type(layer).__name__ for layer in layers]


def test_batch_norm_and_relu_follow_all_layers_but_the_last():
    layers = projection_head(3, 5, 7, 2)
    hidden = ["Linear", "BatchNorm1d", "ReLU"]
    assert kinds(layers) == [*hidden, *hidden, "Linear"]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(3, 5), (5, 7), (7, 2)]
    assert [layer.bias is None for layer in linear] == [True, True, False]

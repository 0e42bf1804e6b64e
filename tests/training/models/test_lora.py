"""Low-rank adapters, against weights and convolutions worked out otherwise."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.closeness import assert_close_in_norm
from tests.drawn_head import draw_head
from training.models import ModelConfig, build_model
from training.models.cases import Network
from training.models.lora import Adapted, Adapters, merge_adapters


def test_a_linear_layer_by_hand():
    state = {
        "encoder.fc.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "encoder.fc.bias": torch.tensor([7.0, 8.0, 9.0]),
        "heads.encoder/fc.a": torch.tensor([[1.0, -1.0]]),
        "heads.encoder/fc.b": torch.tensor([[2.0], [0.0], [-1.0]]),
    }
    merged = merge_adapters(state, scale=0.5)
    # B A = [[2, −2], [0, 0], [−1, 1]], halved and added.
    assert merged["encoder.fc.weight"].tolist() == [[2.0, 1.0], [3.0, 4.0], [4.5, 6.5]]
    assert merged["encoder.fc.bias"].tolist() == [7.0, 8.0, 9.0]
    assert merged.keys() == {"encoder.fc.weight", "encoder.fc.bias"}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_any_stride_and_groups(stride, groups):
    """A convolution by A into r channels, then one of 1 x 1 by B, added to the convolution by W_0.

    With groups each input group has the same A, and B's rows belong to the group of their output channel.
    """
    random = torch.Generator().manual_seed(0)
    rank, scale, outs, ins = 2, 0.7, 6, 4
    weight = torch.randn(outs, ins // groups, 3, 3, generator=random)
    a = torch.randn(rank, ins // groups * 9, generator=random)
    b = torch.randn(outs, rank, generator=random)
    images = torch.randn(5, ins, 7, 7, generator=random)
    state = {"encoder.conv.weight": weight, "heads.encoder/conv.a": a, "heads.encoder/conv.b": b}
    merged = merge_adapters(state, scale)["encoder.conv.weight"]
    found = F.conv2d(images, merged, stride=stride, padding=1, groups=groups)

    kernels = a.reshape(rank, ins // groups, 3, 3)
    parts = []
    for group in range(groups):
        inside = images[:, group * ins // groups : (group + 1) * ins // groups]
        rows = b[group * outs // groups : (group + 1) * outs // groups]
        narrow = F.conv2d(inside, kernels, stride=stride, padding=1)
        parts.append(F.conv2d(narrow, rows[:, :, None, None]))
    expected = F.conv2d(images, weight, stride=stride, padding=1, groups=groups) + scale * torch.cat(
        parts, dim=1
    )
    assert_close_in_norm(found, expected)


MODELS = [
    ModelConfig(name="resnet18", options={"channels": [4, 8, 16, 32]}),
    ModelConfig(name="mobilenetv3_small_050"),  # depthwise convolutions
    ModelConfig(name="vit_tiny_patch16_224", options={"img_size": 32, "depth": 2}),
]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.name)
def test_the_merged_model_computes_what_the_adapted_one_did(config):
    model = draw_head(build_model(config, 3, seed=1))
    torch.manual_seed(2)
    network = Network(model, Adapters(model, rank=2))
    plain = build_model(config, 3, seed=5).eval()
    images = torch.rand(2, 3, 32, 32)
    adapted = Adapted(network, scale=1.5).eval()
    before = model.eval()(images)
    assert_close_in_norm(adapted(images), before, of="with B zero")
    for name, parameter in network.named_parameters():
        if name.endswith(".b") and name.startswith("heads."):
            nn.init.normal_(parameter, std=0.1)
    plain.load_state_dict({**plain.state_dict(), **merge_adapters(network.state_dict(), 1.5)})
    found = adapted(images)
    assert_close_in_norm(found, plain(images))
    assert_close_in_norm(adapted.embed(images), plain.embed(images))
    assert_close_in_norm(adapted.classify(adapted.embed(images)), found)
    assert float((found - before).detach().abs().max()) > 1e-3
    assert_close_in_norm(model(images), before, of="with W_0 as it was")


def test_a_rank_is_at_most_a_layers_smaller_side():
    model = build_model(MODELS[0], 3, seed=1)
    factors = dict(Adapters(model, rank=8).named_parameters())
    assert factors["encoder/layer1/0/conv1.a"].shape == (4, 64 * 9)  # four channels
    assert factors["encoder/conv1.a"].shape == (8, 3 * 7 * 7)
    assert factors["encoder/fc.b"].shape == (3, 3)
    assert factors["encoder/layer4/0/conv1.a"].shape == (8, 16 * 9)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    assert len(factors) == 2 * len(layers)


def test_a_is_gaussian_of_variance_one_over_its_columns():
    torch.manual_seed(0)
    model = build_model(ModelConfig(name="resnet18"), 3, seed=1)
    for name, factor in Adapters(model, rank=16).named_parameters():
        values = factor.detach().numpy()
        if name.endswith(".a") and values.size > 10_000:
            assert values.std() == pytest.approx(1 / np.sqrt(values.shape[1]), rel=0.05)
        elif name.endswith(".b"):
            assert not values.any()


def test_under_autocast_a_change_is_not_rounded_to_half_precision():
    model = build_model(MODELS[0], 3, seed=1)
    torch.manual_seed(2)
    network = Network(model, Adapters(model, rank=2))
    for name, parameter in network.named_parameters():
        if name.endswith(".b") and name.startswith("heads."):
            nn.init.normal_(parameter, std=0.1)
    plain = build_model(MODELS[0], 3, seed=5).eval()
    plain.load_state_dict({**plain.state_dict(), **merge_adapters(network.state_dict(), 1.5)})
    images = torch.rand(2, 3, 32, 32)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert Adapted(network, 1.5).eval()(images).equal(plain(images))

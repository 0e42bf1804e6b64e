"""The shape of the heads with batch norm."""

import torch
from torch import nn

from training.algorithms.objectives.components.projection import projection_head


def kinds(layers):
    return [type(layer).__name__ for layer in layers]


def test_batch_norm_and_relu_follow_all_layers_but_the_last():
    layers = projection_head(3, 5, 7, 2)
    hidden = ["Linear", "BatchNorm1d", "ReLU"]
    assert kinds(layers) == [*hidden, *hidden, "Linear"]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(3, 5), (5, 7), (7, 2)]
    assert [layer.bias is None for layer in linear] == [True, True, False]


def test_a_normalised_output_has_mean_zero_and_deviation_one_and_no_settings():
    torch.manual_seed(0)
    layers = projection_head(3, 5, 2, norm_last=True)
    out = layers(torch.randn(400, 3))
    torch.testing.assert_close(out.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.std(dim=0, correction=0), torch.ones(2), atol=1e-2, rtol=0)
    assert kinds(layers)[-1] == "BatchNorm1d"
    assert not list(layers[-1].parameters())
    assert all(layer.bias is None for layer in layers if isinstance(layer, nn.Linear))

"""The shape of the heads with batch norm."""

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

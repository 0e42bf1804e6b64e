"""Perceptrons with batch norm, which BYOL and MoCo v3 put on their encoders."""

from itertools import pairwise

from torch import nn


def projection_head(*widths: int, norm_last: bool = False) -> nn.Sequential:
    """Linear layers from each width to the next; batch norm and ReLU follow each but the last.

    Args:
        widths: of the input, the hidden layers and the output.
        norm_last: whether the output is normalised too, without a scale and a shift of its own.
    """
    layers: list[nn.Module] = []
    last = len(widths) - 2
    for place, (inside, outside) in enumerate(pairwise(widths)):
        normed = place < last or norm_last
        # What a bias adds, batch norm takes away.
        layers.append(nn.Linear(inside, outside, bias=not normed))
        if normed:
            layers.append(nn.BatchNorm1d(outside, affine=place < last))
        if place < last:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)

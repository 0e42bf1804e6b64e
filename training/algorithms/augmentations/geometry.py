"""Operations on the shape; the level of each picture is signed, in [-1, 1].

At level 1: rotate by 30 degrees, shear by 0.3 pixels a pixel, translate by 150/331 of the side. All are
affine maps, bilinear, with the border reflected.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_ROTATION = math.radians(30)
MAX_SHEAR = 0.3
MAX_TRANSLATION = 150 / 331


def rotate(images: Tensor, levels: Tensor) -> Tensor:
    """Turn about the centre, anticlockwise at a positive level."""
    height, width = images.shape[2:]
    cosine, sine = torch.cos(levels * MAX_ROTATION), torch.sin(levels * MAX_ROTATION)
    return warp(images, (cosine, -sine * height / width, 0), (sine * width / height, cosine, 0))


def shear_x(images: Tensor, levels: Tensor) -> Tensor:
    """Move each row to the left by 0.3 level times its distance from the upper border."""
    height, width = images.shape[2:]
    slope = MAX_SHEAR * levels * height / width
    return warp(images, (1, slope, slope), (0, 1, 0))


def shear_y(images: Tensor, levels: Tensor) -> Tensor:
    """Move each column up by 0.3 level times its distance from the left border."""
    height, width = images.shape[2:]
    slope = MAX_SHEAR * levels * width / height
    return warp(images, (1, 0, 0), (slope, 1, slope))


def translate_x(images: Tensor, levels: Tensor) -> Tensor:
    """Move to the right by 150/331 level of the width."""
    return warp(images, (1, 0, -2 * MAX_TRANSLATION * levels), (0, 1, 0))


def translate_y(images: Tensor, levels: Tensor) -> Tensor:
    """Move down by 150/331 level of the height."""
    return warp(images, (1, 0, 0), (0, 1, -2 * MAX_TRANSLATION * levels))


Row = tuple[Tensor | int, Tensor | int, Tensor | int]


def warp(images: Tensor, x_from: Row, y_from: Row) -> Tensor:
    """Pictures whose pixel at (x, y) is looked up at (a x + b y + c, d x + e y + f).

    Args:
        images: the pictures; each reaches from -1 to 1 on both axes, and y grows downwards.
        x_from: a, b and c, for all pictures or for each, `(batch,)`.
        y_from: d, e and f.
    """
    count, _, height, width = images.shape
    x, y = centres(width, images), centres(height, images).view(-1, 1)
    sources = []
    for row in (x_from, y_from):
        by_x, by_y, shift = (entry.view(-1, 1, 1) if isinstance(entry, Tensor) else entry for entry in row)
        sources.append((by_x * x + (by_y * y + shift)).expand(count, height, width))
    grid = torch.stack(sources, dim=-1)
    # Rounding can put a mean of pixels a little above 1.
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False).clamp_(0, 1)


def centres(side: int, images: Tensor) -> Tensor:
    """Where the centres of `side` pixels are on an axis from -1 to 1."""
    return (2 * torch.arange(side, dtype=images.dtype, device=images.device) + 1) / side - 1

"""Which patches of a picture are hidden: at random (He et al. 2022), or in blocks (Bao et al. 2022).

Departures from BEiT's Algorithm 1: a block may be as high or as wide as the picture, and where ten attempts
find no place for a first block, as on a grid of few patches, one patch is masked.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ASPECT = 0.3  # BEiT's bound: height over width of a block is in [0.3, 1 / 0.3]
ATTEMPTS = 10  # of BEiT's code, to place one block


def num_masked(ratio: float, patches: int) -> int:
    """How many patches random masking hides: the share `ratio`, rounded, but never none and never all."""
    return min(max(round(ratio * patches), 1), patches - 1)


def draw_masks(count: int, patches: int, ratio: float, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random masks of `count` pictures: positions of visible and of masked patches, each row a random order.

    Returns:
        visible `(count, patches - masked)` and masked `(count, masked)`.
    """
    order = torch.rand(count, patches, generator=random).argsort(dim=1, stable=True)
    visible = patches - num_masked(ratio, patches)
    return order[:, :visible], order[:, visible:]


@dataclass(frozen=True)
class Block:
    """A rectangle of patches, of a share of the grid's rows and columns."""

    top: int
    left: int
    height: int
    width: int

    @property
    def place(self) -> tuple[slice, slice]:
        """Its rows and columns."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)


def draw_blocks(
    rows: int, columns: int, ratio: float, smallest: float, random: np.random.Generator
) -> list[Block]:
    """The blocks that mask one picture (Bao et al. 2022, Algorithm 1): together at most the share `ratio`.

    A block's area is uniform between the smallest and what may still be masked, the logarithm of its height
    over its width uniform in [log 0.3, log 1/0.3], both before rounding to whole patches. Blocks may overlap,
    but each masks something new.

    Args:
        rows: of patches.
        columns: of patches.
        ratio: the largest share of the patches that may be masked.
        smallest: the smallest area of a block, as a share of the patches.
        random: of the draws.
    """
    masked = np.zeros((rows, columns), dtype=np.bool_)
    # A share such as 0.29 of 100 is 28.999… in floating point; 29 are meant.
    most = max(int(ratio * rows * columns + 1e-9), 1)
    blocks: list[Block] = []
    while (left := most - int(masked.sum())) > 0:
        block = place_block(masked, left, smallest * rows * columns, random)
        if block is None:
            break
        masked[block.place] = True
        blocks.append(block)
    return blocks or [Block(int(random.integers(rows)), int(random.integers(columns)), 1, 1)]


def place_block(
    masked: NDArray[np.bool_], left: int, smallest: float, random: np.random.Generator
) -> Block | None:
    """A block that masks at least one and at most `left` patches more; None when ten attempts find none."""
    rows, columns = masked.shape
    low, high = sorted((smallest, float(left)))
    for _ in range(ATTEMPTS):
        area, ratio = random.uniform(low, high), math.exp(random.uniform(math.log(ASPECT), -math.log(ASPECT)))
        height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if not (1 <= height <= rows and 1 <= width <= columns):
            continue
        top, start = int(random.integers(rows - height + 1)), int(random.integers(columns - width + 1))
        block = Block(top, start, height, width)
        if 0 < height * width - int(masked[block.place].sum()) <= left:
            return block
    return None


def draw_block_masks(
    count: int, rows: int, columns: int, ratio: float, smallest: float, random: np.random.Generator
) -> Tensor:
    """Block-wise masks of `count` pictures `(count, patches)`, bool, patches in reading order."""
    masks = np.zeros((count, rows, columns), dtype=np.bool_)
    for mask in masks:
        for block in draw_blocks(rows, columns, ratio, smallest, random):
            mask[block.place] = True
    return torch.from_numpy(masks.reshape(count, -1))

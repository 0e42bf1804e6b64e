"""Masks: exact counts, and blocks that are BEiT's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.algorithms.objectives.components.masking import (
    draw_block_masks,
    draw_blocks,
    draw_masks,
    num_masked,
)

ratios = st.floats(0.01, 0.99)


@given(ratio=ratios, patches=st.integers(2, 300), seed=st.integers(0, 2**20))
def test_random_masks_part_the_patches_and_hide_exactly_their_share(ratio, patches, seed):
    visible, masked = draw_masks(3, patches, ratio, torch.Generator().manual_seed(seed))
    hidden = masked.shape[1]
    assert 1 <= hidden <= patches - 1
    assert abs(hidden - ratio * patches) <= 0.5 or hidden in (1, patches - 1)
    for row in torch.cat([visible, masked], dim=1).tolist():
        assert sorted(row) == list(range(patches))


@pytest.mark.parametrize(
    ("ratio", "patches", "expected"),
    [
        (0.75, 196, 147),
        (0.6, 196, 118),
        (0.4, 196, 78),
        (0.75, 4, 3),
        (0.99, 4, 3),
        (0.01, 4, 1),
        (0.5, 2, 1),
    ],
)
def test_how_many_are_masked(ratio, patches, expected):
    assert num_masked(ratio, patches) == expected


@given(
    rows=st.integers(1, 16),
    columns=st.integers(1, 16),
    ratio=ratios,
    smallest=st.floats(0.01, 0.5),
    seed=st.integers(0, 2**20),
)
def test_blocks_lie_in_the_grid_and_mask_at_least_one_patch_and_never_more_than_their_share(
    rows, columns, ratio, smallest, seed
):
    blocks = draw_blocks(rows, columns, ratio, smallest, np.random.default_rng(seed))
    masked = set()
    for block in blocks:
        assert block.top >= 0
        assert block.left >= 0
        assert block.height >= 1
        assert block.width >= 1
        assert block.top + block.height <= rows
        assert block.left + block.width <= columns
        # Rounding to whole patches moves each side by at most half a patch.
        assert (block.height - 0.5) / (block.width + 0.5) <= 1 / 0.3
        assert (block.width - 0.5) / (block.height + 0.5) <= 1 / 0.3
        new = {
            (block.top + y, block.left + x) for y in range(block.height) for x in range(block.width)
        } - masked
        assert new
        masked |= new
    assert 1 <= len(masked) <= max(ratio * rows * columns + 1e-6, 1)


@given(seed=st.integers(0, 2**20))
def test_a_mask_is_the_union_of_its_blocks_in_reading_order(seed):
    masks = draw_block_masks(2, 5, 7, 0.4, 16 / 196, np.random.default_rng(seed))
    random = np.random.default_rng(seed)
    for mask in masks.numpy():
        expected = [False] * 35
        for block in draw_blocks(5, 7, 0.4, 16 / 196, random):
            for y in range(block.top, block.top + block.height):
                for x in range(block.left, block.left + block.width):
                    expected[7 * y + x] = True
        assert mask.tolist() == expected


def test_beits_grid_is_masked_close_to_its_share_by_blocks_and_not_by_scattered_patches():
    random = np.random.default_rng(0)
    drawn = [draw_blocks(14, 14, 0.4, 16 / 196, random) for _ in range(200)]
    counts = draw_block_masks(200, 14, 14, 0.4, 16 / 196, np.random.default_rng(0)).sum(dim=1)
    assert counts.max() <= 78
    assert counts.float().mean() > 65
    first = [blocks[0].height * blocks[0].width for blocks in drawn]
    # The first block's area is uniform in [16, 78], before its sides are rounded.
    assert 40 < np.mean(first) < 54
    assert min(first) > 8


def test_a_share_that_floating_point_falls_short_of_is_reached():
    blocks = [draw_blocks(10, 10, 0.29, 0.01, np.random.default_rng(seed)) for seed in range(20)]
    counts = [
        len(
            {
                (y, x)
                for b in some
                for y in range(*b.place[0].indices(10))
                for x in range(*b.place[1].indices(10))
            }
        )
        for some in blocks
    ]
    assert max(counts) == 29

"""Pictures as patches, and masks of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.closeness import assert_close_in_norm
from training.errors import JobError
from training.models import ModelConfig, build_model
from training.models.patches import (
    PatchGrid,
    draw_block_masks,
    draw_blocks,
    draw_masks,
    encode_replaced,
    encode_visible,
    patch_grid,
    patchify,
)

OPTIONS = {"img_size": 16, "patch_size": 4, "depth": 2, "embed_dim": 16, "num_heads": 2}
KINDS = {
    "class token": {},
    "average": {"class_token": False, "global_pool": "avg"},
    "registers": {"reg_tokens": 2, "no_embed_class": True},
    "norm first": {"pre_norm": True},
    "any size": {"dynamic_img_size": True},
}


def vit(**changes):
    options = {**OPTIONS, **changes}
    return build_model(ModelConfig(name="vit_tiny_patch16_224", options=options), 2, seed=3).eval()


@pytest.fixture
def images():
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def naive_patches(image, height, width):
    """Cut one picture `(3, height, width)` pixel by pixel."""
    corners = [(y, x) for y in range(0, image.shape[1], height) for x in range(0, image.shape[2], width)]
    patches = [
        [image[c, top + y, left + x] for y in range(height) for x in range(width) for c in range(3)]
        for top, left in corners
    ]
    return np.array(patches)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (8, 2), (2, 8), (16, 4)])
def test_patches_are_cut_in_reading_order(images, height, width):
    grid = PatchGrid(16 // height, 16 // width, height, width)
    patches = patchify(images, grid)
    expected = np.stack([naive_patches(image, height, width) for image in images.numpy()])
    np.testing.assert_array_equal(patches.numpy(), expected)
    stored_otherwise = images.to(memory_format=torch.channels_last)
    assert torch.equal(patchify(stored_otherwise, grid), patches)


@pytest.mark.parametrize("kind", KINDS)
def test_seeing_all_patches_in_any_order_is_the_encoder_itself(images, kind):
    encoder = vit(**KINDS[kind]).encoder
    order = torch.stack([torch.randperm(16) for _ in range(3)])
    encoded = encode_visible(encoder, images, order)
    whole = encoder.forward_features(images)
    prefix = encoder.num_prefix_tokens
    assert_close_in_norm(encoded[:, :prefix], whole[:, :prefix])
    for row in range(3):
        assert_close_in_norm(encoded[row, prefix:], whole[row, prefix + order[row]])


def test_some_patches_are_encoded_as_by_hand(images):
    encoder = vit().encoder
    visible = torch.tensor([[5, 0, 11], [2, 3, 1], [15, 8, 4]])
    encoded = encode_visible(encoder, images, visible)
    for row in range(3):
        flat = images[row].unfold(1, 4, 4).unfold(2, 4, 4).permute(1, 2, 0, 3, 4).reshape(16, 48)
        tokens = flat @ encoder.patch_embed.proj.weight.reshape(16, 48).T + encoder.patch_embed.proj.bias
        placed = torch.stack([tokens[i] + encoder.pos_embed[0, 1 + i] for i in visible[row].tolist()])
        first = encoder.cls_token[0] + encoder.pos_embed[0, :1]
        by_hand = encoder.norm(encoder.blocks(torch.cat([first, placed])[None]))
        assert_close_in_norm(encoded[row], by_hand[0])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_masked_does_not_influence_what_is_encoded(images, kind):
    encoder = vit(**KINDS[kind]).encoder
    visible = torch.tensor([[5, 0, 11], [2, 3, 1], [15, 8, 4]])
    masked = torch.ones(3, 16, dtype=torch.bool).scatter(1, visible, False)
    hidden = masked.view(3, 1, 4, 4).repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
    other = torch.where(hidden, torch.randn_like(images), images)
    assert_close_in_norm(encode_visible(encoder, images, visible), encode_visible(encoder, other, visible))
    embedding = torch.randn(16)
    replaced = [encode_replaced(encoder, shown, masked, embedding) for shown in (images, other)]
    assert_close_in_norm(replaced[0], replaced[1])
    assert (encode_replaced(encoder, images, masked, -embedding) - replaced[0]).abs().max() > 1e-3


def test_an_embedding_takes_the_place_of_a_patch_before_positions_are_added(images):
    encoder = vit().encoder
    masked = torch.zeros(3, 16, dtype=torch.bool)
    masked[:, [2, 9]] = True
    embedding = torch.randn(16)
    tokens = encoder.patch_embed(images).clone()
    tokens[:, 2] = embedding
    tokens[:, 9] = embedding
    first = encoder.cls_token.expand(3, -1, -1)
    by_hand = encoder.norm(encoder.blocks(torch.cat([first, tokens], 1) + encoder.pos_embed))
    assert_close_in_norm(encode_replaced(encoder, images, masked, embedding), by_hand)


def test_encoders_that_cannot_be_masked_are_refused_with_a_way_out():
    narrow = {"channels": [4, 8, 16, 32]}
    resnet = build_model(ModelConfig(name="resnet18", options=narrow), 2, seed=0)
    with pytest.raises(JobError, match=r"mae hides patches .* is a ResNet\. Choose a model such as vit_tiny"):
        patch_grid(resnet, "mae")
    with pytest.raises(
        JobError,
        match=r"patches of 16 pixels do not divide pictures of 72; choose data\.image_size 64 or 80, or "
        r"model\.options\.patch_size 18",
    ):
        patch_grid(vit(img_size=72, patch_size=16), "mae")
    with pytest.raises(JobError, match="patches of 16 pixels leave one of a picture of 16"):
        patch_grid(vit(patch_size=16), "mae")


ratios = st.floats(0.01, 0.99)


@given(ratio=ratios, patches=st.integers(2, 300), seed=st.integers(0, 2**20))
def test_random_masks_part_the_patches_and_hide_exactly_their_share(ratio, patches, seed):
    visible, masked = draw_masks(3, patches, ratio, torch.Generator().manual_seed(seed))
    hidden = masked.shape[1]
    assert 1 <= hidden <= patches - 1
    assert abs(hidden - ratio * patches) <= 0.5 or hidden in (1, patches - 1)
    for row in torch.cat([visible, masked], dim=1).tolist():
        assert sorted(row) == list(range(patches))


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

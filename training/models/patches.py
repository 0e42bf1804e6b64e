"""Pictures as patches, and a vision transformer that sees some of them: what masked modelling builds on.

Patches are in reading order, row by row. A patch as a vector has its pixels row by row, the three colours of
a pixel side by side.

Which patches of a picture are hidden: at random (He et al. 2022), or in blocks (Bao et al. 2022).

Departures from BEiT's Algorithm 1: a block may be as high or as wide as the picture, and where ten attempts
find no place for a first block, as on a grid of few patches, one patch is masked.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from training.errors import DataError, JobError
from training.models.classifier import Classifier
from training.models.encoder_files import prepare_torchvision


@dataclass(frozen=True)
class PatchGrid:
    """How pictures are cut into patches.

    Attributes:
        rows, columns: patches from top to bottom and from left to right.
        height, width: of one patch, in pixels.
    """

    rows: int
    columns: int
    height: int
    width: int

    @property
    def patches(self) -> int:
        """Patches in a picture."""
        return self.rows * self.columns

    @property
    def pixels(self) -> int:
        """Values in a patch, three for each pixel."""
        return self.height * self.width * 3

    @property
    def picture(self) -> tuple[int, int]:
        """Height and width of a picture, in pixels."""
        return self.rows * self.height, self.columns * self.width


def patch_grid(model: Classifier, objective: str) -> PatchGrid:
    """How the model's encoder cuts its pictures.

    Args:
        model: whose encoder must be a timm VisionTransformer.
        objective: who needs patches, for the error.

    Raises:
        JobError: when the encoder is no such transformer, its patches do not cover its pictures, or a picture
            is a single patch.
    """
    prepare_torchvision()
    from timm.layers import PatchEmbed
    from timm.models import VisionTransformer

    encoder = model.encoder
    embed = getattr(encoder, "patch_embed", None)
    # A stem of convolutions would mix what is masked into what is seen.
    if not isinstance(encoder, VisionTransformer) or not isinstance(embed, PatchEmbed):
        raise JobError(
            f"objective.name: {objective} hides patches from a plain vision transformer; the model's encoder "
            f"is a {type(encoder).__name__}. Choose a model such as vit_tiny_patch16_224"
        )
    picture, patch = embed.img_size, embed.patch_size
    for side, length in zip(picture, patch, strict=True):
        if side % length:
            raise JobError(indivisible(side, length))
    grid = PatchGrid(picture[0] // patch[0], picture[1] // patch[1], *patch)
    if grid.patches < 2:
        raise JobError(
            f"objective.name: {objective} hides some patches of a picture and shows the others, but patches "
            f"of {patch[0]} pixels leave one of a picture of {picture[0]}; choose a larger data.image_size, "
            "or a smaller model.options.patch_size"
        )
    return grid


def indivisible(side: int, patch: int) -> str:
    """The error text for pictures of `side` pixels that patches of `patch` pixels do not divide."""
    sizes = [patch * count for count in (side // patch, side // patch + 1) if count > 0]
    fitting = [length for length in range(2, side // 2 + 1) if side % length == 0]
    nearest = min(fitting, key=lambda length: abs(length - patch), default=None)
    instead = f", or model.options.patch_size {nearest}" if nearest else ""
    return (
        f"patches of {patch} pixels do not divide pictures of {side}; choose data.image_size "
        f"{' or '.join(map(str, sizes))}{instead}"
    )


def check_pictures(client: str, images: NDArray[np.uint8], grid: PatchGrid) -> None:
    """Refuse a client whose pictures `(pictures, height, width, 3)` are not of the size the encoder takes.

    Raises:
        DataError: naming the client and both sizes.
    """
    height, width = images.shape[1:3]
    if (height, width) != grid.picture:
        raise DataError(
            f"{client} has pictures of {height} x {width} pixels; the encoder takes {grid.picture[0]} x "
            f"{grid.picture[1]}. Give data.image_size and model.options.img_size one value"
        )


def patchify(images: Tensor, grid: PatchGrid) -> Tensor:
    """Pictures `(batch, 3, height, width)` as patches `(batch, patches, pixels)`."""
    cut = images.reshape(len(images), 3, grid.rows, grid.height, grid.columns, grid.width)
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(len(images), grid.patches, grid.pixels)


def encode_visible(encoder: Any, images: Tensor, visible: Tensor) -> Tensor:
    """The encoder's output when it sees the visible patches alone, at the positions where they belong.

    Args:
        encoder: a timm VisionTransformer, which has no types.
        images: normalised pictures `(batch, 3, height, width)`.
        visible: the positions of the visible patches `(batch, visible)`.

    Returns:
        `(batch, prefix tokens + visible, width)`, after the final norm where the encoder has one.
    """
    tokens = encoder._pos_embed(encoder.patch_embed(images))
    prefix, patches = tokens.split(
        [encoder.num_prefix_tokens, tokens.shape[1] - encoder.num_prefix_tokens], 1
    )
    seen = patches.gather(1, visible.unsqueeze(-1).expand(-1, -1, patches.shape[-1]))
    tokens = torch.cat([prefix, seen], dim=1)
    return through_blocks(encoder, tokens)


def encode_replaced(encoder: Any, images: Tensor, masked: Tensor, embedding: Tensor) -> Tensor:
    """The encoder's output when an embedding replaces each masked patch; positions are added to both.

    Args:
        encoder: a timm VisionTransformer, which has no types.
        images: normalised pictures `(batch, 3, height, width)`.
        masked: which patches are masked `(batch, patches)`, bool.
        embedding: what replaces them `(width,)`.

    Returns:
        `(batch, prefix tokens + patches, width)`, after the final norm where the encoder has one.
    """
    patches = encoder.patch_embed(images)
    # An encoder of pictures of any size leaves its patches in rows and columns.
    chosen = masked.view(*patches.shape[:-1], 1)
    patches = torch.where(chosen, embedding.to(patches.dtype), patches)
    return through_blocks(encoder, encoder._pos_embed(patches))


def through_blocks(encoder: Any, tokens: Tensor) -> Tensor:
    """Tokens with their positions through what follows in the encoder."""
    encoded: Tensor = encoder.norm(encoder.blocks(encoder.norm_pre(tokens)))
    return encoded


def missing_norm(model: Classifier) -> nn.Module:
    """What stands in for the encoder's final norm where timm has put that behind its pooling."""
    encoder = model.encoder
    return nn.LayerNorm(encoder.embed_dim) if isinstance(encoder.norm, nn.Identity) else nn.Identity()


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

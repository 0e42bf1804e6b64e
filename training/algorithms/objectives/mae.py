"""MAE: rebuild the patches that the encoder did not see (He et al. 2022; Wu et al. 2022, section IV).

The encoder f sees the visible patches of a picture x alone. The decoder g, a light transformer, sees their
encodings and a learned token for each masked patch M, and predicts every patch's pixels. Yan et al. 2023,
Eq. 4, which with fedavg is their Fed-MAE:

    loss(x) = 1/|M| Σ_{i ∈ M} (x_i − g(f(x'))_i)²

the square being the mean over a patch's pixels, of normalised pictures. `loss_on: all` takes the mean over
all patches: Wu et al. 2022, Eq. 7, ‖x − g(f(x'))‖², but for the factor of a mean. Their FedMAE is this
objective with `{name: except, groups: [class_token]}` for sync, and an encoder that gives the class token no
position of its own (`model.options.no_embed_class`): a learned one is added to the token, gets the same
gradient, and would travel with half of what the token learns. MAE's positions are fixed, the token's is zero.

Departures from MAE's code: the encoder's positions are the classifier's own, learned where it learns them;
flips are left-right and up-down; the decoder's layer norms add 1e-5 to the variance, where the authors' add
1e-6.
"""

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from training.algorithms.augmentations import AugmentConfig
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import UnlabelledTask
from training.models import Classifier
from training.models.cases import Network
from training.models.encoder_files import prepare_torchvision
from training.models.patches import (
    PatchGrid,
    check_pictures,
    draw_masks,
    encode_visible,
    missing_norm,
    patch_grid,
    patchify,
)

TOKEN_DEVIATION = 0.02  # of the mask token's initial values, as in MAE's code
POSITION_PARTS = 4  # a sine and a cosine of the row and of the column
EPSILON = 1e-6  # beside a patch's variance, as in MAE's code


class MAE(Objective):
    """The squared error of rebuilt patches.

    Attributes:
        mask_ratio: γ, the share of a picture's patches that is masked; 0.6 in Yan et al. 2023.
        decoder_width, decoder_depth, decoder_heads: the decoder's width, blocks and attention heads.
        norm_pix_loss: whether each patch's target is scaled to mean 0 and deviation 1.
        loss_on: the patches whose error counts; `all` is Eq. 7 of Wu et al. 2022 as written.
    """

    self_supervised = True
    name: Literal["mae"] = "mae"
    augment: AugmentConfig = AugmentConfig(crop=(0.2, 1.0))
    mask_ratio: float = Field(0.75, gt=0, lt=1)
    decoder_width: int = Field(512, ge=4)
    decoder_depth: int = Field(8, ge=1)
    decoder_heads: int = Field(16, ge=1)
    norm_pix_loss: bool = False
    loss_on: Literal["masked", "all"] = "masked"

    @model_validator(mode="after")
    def _width_divides(self) -> "MAE":
        step = math.lcm(self.decoder_heads, POSITION_PARTS)
        if self.decoder_width % step:
            larger = self.decoder_width + step - self.decoder_width % step
            raise ValueError(
                f"decoder_width {self.decoder_width} must be a multiple of decoder_heads "
                f"({self.decoder_heads}) and of {POSITION_PARTS}; choose {larger}"
            )
        return self

    def heads(self, model: Classifier) -> nn.Module:
        """The decoder, the linear layer before it, and a norm where the encoder has none at its end.

        Raises:
            JobError: when the model does not see a picture as patches that could be masked.
        """
        grid = patch_grid(model, self.name)
        projection = nn.Linear(model.encoder.embed_dim, self.decoder_width)
        initialise(projection)
        return nn.ModuleDict(
            {
                "encoder_norm": missing_norm(model),
                "decoder_projection": projection,
                "decoder": Decoder(self, grid),
            }
        )

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round.

        Raises:
            DataError: when the pictures are not of the size that the encoder takes.
        """
        assert isinstance(model, Network)
        grid = patch_grid(model, self.name)
        check_pictures(work.client, work.examples.images, grid)
        return MAETask(self, model, work, grid)


class Decoder(nn.Module):
    """A light transformer that predicts every patch's pixels, the masked ones from a learned token."""

    positions: Tensor

    def __init__(self, config: MAE, grid: PatchGrid) -> None:
        super().__init__()
        prepare_torchvision()
        from timm.layers import build_sincos2d_pos_embed
        from timm.models.vision_transformer import Block

        width = config.decoder_width
        self.mask_token = nn.Parameter(torch.randn(1, 1, width) * TOKEN_DEVIATION)
        self.blocks = nn.Sequential(
            *(Block(width, config.decoder_heads, qkv_bias=True) for _ in range(config.decoder_depth))
        )
        self.norm = nn.LayerNorm(width)
        self.pixels = nn.Linear(width, grid.pixels)
        positions = build_sincos2d_pos_embed([grid.rows, grid.columns], width)
        self.register_buffer("positions", positions, persistent=False)
        self.apply(initialise)

    def forward(self, prefix: Tensor, patches: Tensor, visible: Tensor) -> Tensor:
        """Every patch's predicted pixels `(batch, patches, pixels)`.

        Args:
            prefix: the encodings of the class token and its like `(batch, prefix, width)`; they have no
                position of their own.
            patches: those of the visible patches `(batch, visible, width)`.
            visible: where these belong `(batch, visible)`.
        """
        everywhere = self.mask_token.to(patches.dtype).expand(len(patches), len(self.positions), -1)
        index = visible.unsqueeze(-1).expand_as(patches)
        placed = everywhere.scatter(1, index, patches) + self.positions
        decoded = self.norm(self.blocks(torch.cat([prefix, placed.to(prefix.dtype)], dim=1)))
        pixels: Tensor = self.pixels(decoded[:, prefix.shape[1] :])
        return pixels


def initialise(module: nn.Module) -> None:
    """Give a linear layer the initial weights of MAE's code: uniform after Glorot and Bengio (2010)."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


class MAETask(UnlabelledTask):
    """One client's round of rebuilding what was masked."""

    def __init__(self, config: MAE, model: Network, work: LocalRound, grid: PatchGrid) -> None:
        super().__init__(config, work, views=1)
        self._config = config
        self._model = model
        self._grid = grid
        self._masks = work.torch_generator("masks")

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 4, the mean over the batch."""
        model, config, images = self._model, self._config, batch.images
        visible, masked = (
            index.to(images.device)
            for index in draw_masks(len(images), self._grid.patches, config.mask_ratio, self._masks)
        )
        normalised = (images - model.mean) / model.std
        predicted = reconstruct(model, normalised, visible)
        wanted = targets(patchify(normalised, self._grid), norm_pix=config.norm_pix_loss)
        errors = (predicted.float() - wanted).square().mean(dim=2)
        losses = (errors if config.loss_on == "all" else errors.gather(1, masked)).mean(dim=1)
        self._losses.add(batch.positions, losses)
        return losses.mean()


def reconstruct(model: Network, images: Tensor, visible: Tensor) -> Tensor:
    """Predicted pixels of every patch `(batch, patches, pixels)` of normalised pictures."""
    heads, prefix = model.heads, model.encoder.num_prefix_tokens
    encoded = heads.get_submodule("encoder_norm")(encode_visible(model.encoder, images, visible))
    tokens = heads.get_submodule("decoder_projection")(encoded)
    predicted: Tensor = heads.get_submodule("decoder")(tokens[:, :prefix], tokens[:, prefix:], visible)
    return predicted


def targets(patches: Tensor, *, norm_pix: bool) -> Tensor:
    """What to predict for patches `(batch, patches, pixels)`: themselves, or each by its own spread."""
    if not norm_pix:
        return patches
    mean, variance = patches.mean(dim=2, keepdim=True), patches.var(dim=2, keepdim=True)
    return (patches - mean) / (variance + EPSILON).sqrt()

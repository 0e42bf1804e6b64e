"""BEiT: predict the visual tokens of masked patches (Bao et al. 2022; Yan et al. 2023, Eq. 3).

Blocks of patches M are masked: a learned embedding takes their place in the encoder's input. From the
encoder's output a linear layer predicts the visual token z_i of each masked patch:

    loss(x) = − 1/|M| Σ_{i ∈ M} log p(z_i | x^M)

With fedavg this is Fed-BEiT. Tokens are those of the picture that the encoder sees, after it was cut, flipped
and coloured as the job's `augment` says.

Departures: by default tokens are from a codebook that the clients learn together, not from DALL-E's dVAE;
the mean is over each picture's masked patches first, as Eq. 3 says, where BEiT's code takes that over all
masked patches of a batch. The encoder is the classifier's own: with its learned positions, where BEiT has
relative ones in every attention, and without the layer scale and the stochastic depth of the authors
(`model.options` takes timm's `init_values` and `drop_path_rate`). Colours are left alone.

The visual tokens of DALL-E: the encoder of its discrete VAE (Ramesh et al. 2021, appendix A.2).

A convolution of 7 × 7, four groups of two residual blocks with max pooling between the groups, and a
convolution of 1 × 1 to 8192 logits at an eighth of the side. A block adds to its input, through ReLUs, three
convolutions of 3 × 3 and one of 1 × 1 on a quarter of the width, times 1/8², 8 being the number of blocks.
Pixels x of [0, 1] enter as 0.8 x + 0.1. A patch's token is the logit that is largest.

Nothing is downloaded: the job names a file of weights. What OpenAI published, `encoder.pkl`, becomes that
file once, where the package DALL-E is installed:

    encoder = torch.load("encoder.pkl", map_location="cpu", weights_only=False)
    tensors = {name: tensor.float().contiguous() for name, tensor in encoder.state_dict().items()}
    safetensors.torch.save_file(tensors, "dalle-encoder.safetensors")

Departures: pictures are brought to eight pixels a patch by bilinear interpolation; BEiT's code takes Lanczos.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from registry.bundle.plugins import PartTable
from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import Client
from training.algorithms.objectives.base import Ask, Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.codebook import Codebook, Tokenizer
from training.algorithms.objectives.epochs import UnlabelledTask
from training.errors import JobError
from training.messages import Broadcast, Tensors, Update
from training.models import Classifier
from training.models.cases import Network
from training.models.patches import (
    PatchGrid,
    check_pictures,
    draw_block_masks,
    encode_replaced,
    missing_norm,
    patch_grid,
)

# Of the encoder of DALL-E.
VOCABULARY = 8192  # its visual tokens
WIDTH = 256  # channels of the first group; each further group has twice as many
GROUPS = 4
BLOCKS = 2  # in a group
DOWN = 8  # pixels of a token's side: pooling halves it three times
PICTURES = 32  # at a time: the first layers are wide


class Dalle(Tokenizer):
    """The tokens of DALL-E's dVAE.

    Attributes:
        weights: a safetensors file with its encoder's tensors, at every client in the same place.
    """

    name: Literal["dalle"] = "dalle"
    weights: str

    @property
    def vocabulary(self) -> int:
        """That of DALL-E."""
        return VOCABULARY

    def network(self) -> nn.Module:
        """The encoder, with the file's weights.

        Raises:
            JobError: when the file is missing or holds something else.
        """
        return load_encoder(DalleEncoder(WIDTH, VOCABULARY), Path(self.weights))

    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, shared_state: Tensors) -> Tensor:
        """The most likely token of every patch."""
        size = (DOWN * grid.rows, DOWN * grid.columns)
        found = [
            network(F.interpolate(some, size, mode="bilinear", antialias=True)).argmax(dim=1).flatten(1)
            for some in torch.split(images, PICTURES)
        ]
        return torch.cat(found)


class Constant(nn.Module):
    """A convolution whose weights are no parameters and no state: they are not trained and never travel."""

    w: Tensor
    b: Tensor

    def __init__(self, channels: int, out: int, side: int) -> None:
        super().__init__()
        self.register_buffer("w", torch.zeros(out, channels, side, side), persistent=False)
        self.register_buffer("b", torch.zeros(out), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        """The convolution, of the same height and width."""
        return F.conv2d(values, self.w, self.b, padding=self.w.shape[-1] // 2)


class ResidualBlock(nn.Module):
    """A block's input and, with a small gain, what four convolutions make of it."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        hidden = out // 4
        self.id_path = Constant(channels, out, 1) if channels != out else nn.Identity()
        path: OrderedDict[str, nn.Module] = OrderedDict()
        sides = ((channels, hidden, 3), (hidden, hidden, 3), (hidden, hidden, 3), (hidden, out, 1))
        for place, (before, after, side) in enumerate(sides, 1):
            path[f"relu_{place}"] = nn.ReLU()
            path[f"conv_{place}"] = Constant(before, after, side)
        self.res_path = nn.Sequential(path)
        self.gain = 1 / (GROUPS * BLOCKS) ** 2

    def forward(self, values: Tensor) -> Tensor:
        """`(batch, out, height, width)`."""
        total: Tensor = self.id_path(values) + self.gain * self.res_path(values)
        return total


class DalleEncoder(nn.Module):
    """The dVAE's encoder: pictures in [0, 1] to logits `(batch, vocabulary, height / 8, width / 8)`.

    Its tensors are named as OpenAI's.
    """

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        blocks: OrderedDict[str, nn.Module] = OrderedDict(input=Constant(3, width, 7))
        channels = width
        for group in range(GROUPS):
            out, parts = width * 2**group, OrderedDict[str, nn.Module]()
            for block in range(BLOCKS):
                parts[f"block_{block + 1}"] = ResidualBlock(channels, out)
                channels = out
            if group < GROUPS - 1:
                parts["pool"] = nn.MaxPool2d(2)
            blocks[f"group_{group + 1}"] = nn.Sequential(parts)
        output = OrderedDict(relu=nn.ReLU(), conv=Constant(channels, vocabulary, 1))
        blocks["output"] = nn.Sequential(output)
        self.blocks = nn.Sequential(blocks)

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        logits: Tensor = self.blocks(0.8 * images + 0.1)
        return logits


def load_encoder(encoder: DalleEncoder, path: Path) -> DalleEncoder:
    """Copy a safetensors file into the encoder.

    Raises:
        JobError: when the file is missing or its tensors are not the encoder's.
    """
    if not path.is_file():
        raise JobError(
            f"objective.tokenizer.weights: {path} does not exist; give a safetensors file made from DALL-E's "
            "encoder.pkl, or use the tokenizer codebook, which needs none"
        )
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise JobError(f"objective.tokenizer.weights: {path} is no safetensors file: {error}") from error
    own = dict(encoder.named_buffers())
    unfit = sorted(
        name
        for name in own.keys() | stored.keys()
        if name not in own or name not in stored or own[name].shape != stored[name].shape
    )
    if unfit:
        raise JobError(
            f"objective.tokenizer.weights: {path} is not the encoder of DALL-E's dVAE: {len(unfit)} "
            f"tensors are missing, unknown or of another shape, first {unfit[0]}; was it saved from "
            "the decoder?"
        )
    for name, tensor in own.items():
        tensor.copy_(stored[name])
    return encoder


TOKENIZERS: PartTable[Tokenizer] = PartTable("tokenizer", Codebook, Dalle, base=Tokenizer)


SMALLEST_BLOCK = 16 / 196  # its area before rounding, as a share of the patches
DEVIATION = 0.02  # of initial values, as in BEiT's code


class BEiT(Objective):
    """The cross-entropy of masked patches' tokens.

    Attributes:
        mask_ratio: the largest share of a picture's patches that is masked.
        tokenizer: where visual tokens come from.
    """

    self_supervised = True
    name: Literal["beit"] = "beit"
    augment: AugmentConfig = AugmentConfig(crop=(0.2, 1.0))
    mask_ratio: float = Field(0.4, gt=0, lt=1)
    tokenizer: Annotated[Tokenizer, TOKENIZERS] = Codebook()

    def heads(self, model: Classifier) -> nn.Module:
        """The mask embedding, the linear layer to the tokens, and a norm where the encoder ends without.

        Raises:
            JobError: when the model does not see a picture as patches that could be masked, or the tokenizer
                lacks its weights.
        """
        patch_grid(model, self.name)
        return Heads(model, self.tokenizer)

    def prepare(self, ask: Ask, seed: int) -> Tensors:
        """What the tokenizer needs."""
        return self.tokenizer.prepare(ask, seed)

    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's answer to one of the tokenizer's requests."""
        return self.tokenizer.answer(broadcast, client, patch_grid(client.local_model.model, self.name))

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round.

        Raises:
            DataError: when the pictures are not of the size that the encoder takes.
        """
        assert isinstance(model, Network)
        grid = patch_grid(model, self.name)
        check_pictures(work.client, work.examples.images, grid)
        return BEiTTask(self, model, work, grid)


class Heads(nn.Module):
    """What BEiT puts on an encoder."""

    def __init__(self, model: Classifier, tokenizer: Tokenizer) -> None:
        super().__init__()
        width = model.encoder.embed_dim
        self.mask_embedding = nn.Parameter(torch.randn(width) * DEVIATION)
        self.encoder_norm = missing_norm(model)
        self.vocabulary = nn.Linear(width, tokenizer.vocabulary)
        nn.init.normal_(self.vocabulary.weight, std=DEVIATION)
        nn.init.zeros_(self.vocabulary.bias)
        self.tokenizer = tokenizer.network()


class BEiTTask(UnlabelledTask):
    """One client's round of predicting tokens."""

    def __init__(self, config: BEiT, model: Network, work: LocalRound, grid: PatchGrid) -> None:
        super().__init__(config, work, views=1)
        assert isinstance(model.heads, Heads)
        self._config = config
        self._model = model
        self._heads = model.heads
        self._grid = grid
        self._masks = work.numpy_generator("masks")
        self._shared_state = {name: tensor.to(work.device) for name, tensor in work.shared_state.items()}

    def loss(self, batch: Batch) -> Tensor:
        """Eq. 3, the mean over the batch."""
        images, config, grid = batch.images, self._config, self._grid
        masked = draw_block_masks(
            len(images), grid.rows, grid.columns, config.mask_ratio, SMALLEST_BLOCK, self._masks
        ).to(images.device)
        # A token is a fact about the picture: it must not depend on the precision of training.
        with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
            tokens = config.tokenizer.tokens(images, grid, self._heads.tokenizer, self._shared_state)
        logits = predict(self._model, self._heads, images, masked)
        errors = F.cross_entropy(logits.float(), tokens[masked], reduction="none")
        places = torch.zeros(masked.shape, device=images.device).masked_scatter(masked, errors)
        losses = places.sum(dim=1) / masked.sum(dim=1)
        self._losses.add(batch.positions, losses)
        return losses.mean()


def predict(model: Network, heads: Heads, images: Tensor, masked: Tensor) -> Tensor:
    """Logits of the masked patches' tokens `(masked patches of the batch, vocabulary)`, picture by picture.

    Args:
        model: the encoder and its heads.
        heads: the same heads.
        images: pictures `(batch, 3, height, width)` in [0, 1].
        masked: which patches are masked `(batch, patches)`, bool.
    """
    normalised = (images - model.mean) / model.std
    encoded = encode_replaced(model.encoder, normalised, masked, heads.mask_embedding)
    patches = heads.encoder_norm(encoded)[:, model.encoder.num_prefix_tokens :]
    logits: Tensor = heads.vocabulary(patches[masked])
    return logits

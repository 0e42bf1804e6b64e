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
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from registry.bundle.plugins import PartTable
from training.algorithms.augmentations import AugmentConfig
from training.algorithms.client import Client
from training.algorithms.objectives.base import Ask, Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.codebook import Codebook, Tokenizer
from training.algorithms.objectives.dalle import Dalle
from training.algorithms.objectives.epochs import UnlabelledTask
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

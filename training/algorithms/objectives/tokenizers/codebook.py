"""A codebook of patches, learned by all clients together before the first round; a token is the nearest code.

1. Every client sends n, Σ x and Σ x xᵀ over its patches. The server draws seeds from the Gaussian with that
   mean and covariance: no seed is a patch.
2. Lloyd's steps: the server sends its centroids, every client the sum and the number of its patches around
   each, but for cells of fewer than `min_members` patches, which it leaves at zero.

Patches are the pixels as stored, 0 to 255; codes are the centroids over 255. A client with fewer than
`min_members` patches in all sends zeros.

Patches are compared as they are, so codes differ in colour before they differ in structure: of lesions on
MILK10k, patches a ninth of a picture wide, 95 % of the codes' variance is in their mean colour.

What this does not hide: cells that differ by one patch between two steps have sums that differ by that patch.

Departures: Bao et al. 2022 take their tokens from DALL-E's dVAE
(`training.algorithms.objectives.tokenizers.dalle`).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.client import Client
from training.algorithms.objectives.base import Ask
from training.algorithms.objectives.tokenizers.base import Tokenizer
from training.algorithms.objectives.tokenizers.kmeans import (
    Cells,
    Moments,
    cells,
    draw_seeds,
    moments,
    nearest,
)
from training.algorithms.sampling import in_batches
from training.errors import DataError, MessageError
from training.messages.message import (
    Broadcast,
    Shapes,
    Tensors,
    Update,
    check_update,
    reply,
    unknown_question,
)
from training.models.patches import PatchGrid, check_pictures, patchify
from training.seeds import generator

MOMENTS, CELLS = "patch_moments", "patch_cells"  # the questions
CODEBOOK = "codebook"
BATCH = 64  # pictures at a time
WHITE = 255


class Codebook(Tokenizer):
    """Federated k-means over patches.

    Attributes:
        size: how many codes.
        iterations: Lloyd's steps.
        min_members: the fewest patches whose sum leaves a client.
        pictures: how many of its training pictures a client uses, drawn once; None for all.
    """

    name: Literal["codebook"] = "codebook"
    size: int = Field(512, ge=2)
    iterations: int = Field(10, ge=1)
    min_members: int = Field(10, ge=2)
    pictures: int | None = Field(None, ge=1)

    @property
    def vocabulary(self) -> int:
        """One token for each code."""
        return self.size

    def prepare(self, ask: Ask, seed: int) -> Tensors:
        """Learn the codebook.

        Raises:
            MessageError: when an answer is not what was asked for.
            DataError: when no client has patches enough.
        """
        known = add_moments(ask(MOMENTS, {}))
        if not known.n:
            raise DataError(
                f"no client has {self.min_members} patches to learn a codebook from; lower "
                "objective.tokenizer.min_members, or bring more pictures"
            )
        centroids = draw_seeds(known, self.size, generator(seed, "codebook"))
        for _ in range(self.iterations):
            centroids = self.step(ask(CELLS, {"centroids": centroids}), centroids)
        return {CODEBOOK: (centroids / WHITE).float()}

    def step(self, updates: Sequence[Update], centroids: Tensor) -> Tensor:
        """The centroids after one of Lloyd's steps.

        Raises:
            MessageError: when an answer has other shapes, or tells of a cell that is to be withheld.
        """
        expected = {"totals": centroids.shape, "counts": centroids.shape[:1]}
        found = Cells(torch.zeros_like(centroids), centroids.new_zeros(len(centroids)))
        for update in updates:
            check_shapes(update, expected)
            own = Cells(update.tensors["totals"].double(), update.tensors["counts"].double())
            small = (own.counts != 0) & (own.counts < self.min_members)
            if small.any():
                raise MessageError(
                    f"{update.client} tells of a cell of {own.counts[small][0]:g} patches; those of fewer "
                    f"than {self.min_members} stay at their client. Does it run the same version of dermfed?"
                )
            check_range(update, own.totals, own.counts.unsqueeze(1))
            found += own
        return found.move(centroids)

    def answer(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Update:
        """A client's moments, or its cells around the centroids that arrived."""
        if broadcast.ask == MOMENTS:
            return reply(broadcast, tensors=self.answer_moments(broadcast, client, grid))
        if broadcast.ask == CELLS:
            return reply(broadcast, tensors=self.answer_cells(broadcast, client, grid))
        raise unknown_question(broadcast)

    def answer_moments(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Tensors:
        """n, Σ x and Σ x xᵀ of a client's patches; zeros where they are too few."""
        found = none = Moments.none(grid.pixels, client.local_model.device)
        for points in self.points(broadcast, client, grid):
            found += moments(points)
        disclosed = found if found.n >= self.min_members else none
        return {"n": disclosed.n.cpu(), "total": disclosed.total.cpu(), "products": disclosed.products.cpu()}

    def answer_cells(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Tensors:
        """Sum and number of a client's patches around each centroid, small cells withheld.

        Raises:
            MessageError: when the centroids are not so many of this job's patches.
        """
        arrived = broadcast.tensors.get("centroids", torch.empty(0))
        if arrived.shape != (self.size, grid.pixels):
            raise MessageError(
                f"{client.id} was sent centroids of shape {tuple(arrived.shape)}; "
                f"expected {(self.size, grid.pixels)}"
            )
        centroids = arrived.to(client.local_model.device, torch.float64)
        found = Cells(torch.zeros_like(centroids), centroids.new_zeros(len(centroids)))
        for points in self.points(broadcast, client, grid):
            found += cells(points, centroids)
        disclosed = found.withhold(self.min_members)
        return {"totals": disclosed.totals.cpu(), "counts": disclosed.counts.cpu()}

    def points(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Iterator[Tensor]:
        """A client's patches, those of some pictures at a time `(patches, pixels)`, 0 to 255, float64.

        Raises:
            DataError: when the pictures are not of the size that the encoder takes.
        """
        examples = client.examples("train")
        check_pictures(client.id, examples.images, grid)
        order = np.arange(len(examples))
        if self.pictures is not None and self.pictures < len(examples):
            random = generator(client.seed, broadcast.stage, client.id, "codebook's pictures")
            order = np.sort(random.choice(order, self.pictures, replace=False))
        for positions in in_batches(order, BATCH):
            images = torch.from_numpy(examples.batch(positions)).to(client.local_model.device)
            yield patchify(images.permute(0, 3, 1, 2).double(), grid).flatten(0, 1)

    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, shared_state: Tensors) -> Tensor:
        """The nearest code of every patch.

        Raises:
            DataError: when the client no longer has its codebook.
        """
        if CODEBOOK not in shared_state:
            raise DataError(
                "the codebook that was given before the first round is lost; restore the client's store, or "
                "start the run anew"
            )
        points = patchify(images, grid).flatten(0, 1)
        return nearest(points, shared_state[CODEBOOK]).view(len(images), grid.patches)


def add_moments(updates: Sequence[Update]) -> Moments:
    """The moments of all clients' patches together.

    Raises:
        MessageError: when an answer has other shapes than the first client's, or cannot be of pictures.
    """
    pixels = updates[0].tensors.get("total", torch.empty(0)).numel()
    found = Moments.none(pixels, torch.device("cpu"))
    expected = {"n": found.n.shape, "total": found.total.shape, "products": found.products.shape}
    for update in updates:
        check_shapes(update, expected)
        own = Moments(*(update.tensors[name].double() for name in ("n", "total", "products")))
        check_range(update, own.total, own.n)
        found += own
    return found


def check_shapes(update: Update, expected: Shapes) -> None:
    """Refuse an answer with other tensors than these."""
    check_update(update, Broadcast(*update.address), expected)


def check_range(update: Update, totals: Tensor, counts: Tensor) -> None:
    """Refuse sums that so many patches of pixels from 0 to 255 cannot have.

    Raises:
        MessageError: naming the client.
    """
    if (counts < 0).any() or (totals < 0).any() or (totals > WHITE * counts).any():
        raise MessageError(
            f"{update.client} tells of patches whose pixels are not from 0 to {WHITE}; does it run the same "
            "version of dermfed?"
        )

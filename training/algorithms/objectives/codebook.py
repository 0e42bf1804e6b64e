"""The tokenizer interface, and visual tokens from a codebook learned by federated k-means.

Seeds come from two moments, then Lloyd's steps from sums by cell; points never leave. A point's cell is that
of its nearest centroid; a step moves each centroid to the mean of its cell (Lloyd 1982). Both moments and
sums add up over clients, so the server's step is that of all points together. Points are whole numbers in
double precision: their sums are exact, so neither the order of clients nor that of points matters.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from training.algorithms.client import Client, State
from training.algorithms.objectives.base import Ask
from training.algorithms.objectives.epochs import in_batches
from training.config import FrozenConfig
from training.data.dataset import Examples
from training.errors import DataError, MessageError
from training.messages import (
    Broadcast,
    Shapes,
    Tensors,
    Update,
    check_update,
    reply,
    request_digest,
    unknown_request,
)
from training.models.patches import PatchGrid, check_pictures, patchify
from training.randomness import generator


class Tokenizer(FrozenConfig, ABC):
    """Where visual tokens come from."""

    name: str

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many tokens there are."""

    def network(self) -> nn.Module:
        """What it computes with, loaded once; its tensors are non-persistent buffers, which never travel."""
        return nn.Identity()

    def prepare(self, ask: Ask, seed: int) -> Tensors:
        """The shared state of all clients, made before the first round."""
        return {}

    def answer(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Update:
        """A client's answer to one of the requests of `prepare`."""
        raise unknown_request(broadcast)

    @abstractmethod
    def tokens(self, images: Tensor, grid: PatchGrid, network: nn.Module, shared_state: Tensors) -> Tensor:
        """The token of every patch `(batch, patches)`, int64.

        Args:
            images: pictures `(batch, 3, height, width)` in [0, 1].
            grid: how they are cut.
            network: what `network` made, on the pictures' device.
            shared_state: what `prepare` made, there too.
        """


@dataclass(frozen=True)
class Moments:
    """Of n points in so many dimensions.

    Attributes:
        n: how many, a scalar.
        total: Σ x `(dimensions,)`.
        products: Σ x xᵀ `(dimensions, dimensions)`.
    """

    n: Tensor
    total: Tensor
    products: Tensor

    @classmethod
    def none(cls, dimensions: int, device: torch.device) -> "Moments":
        """Of no points."""
        zeros = torch.zeros(dimensions, dimensions, dtype=torch.float64, device=device)
        return cls(zeros.new_zeros(()), zeros.new_zeros(dimensions), zeros)

    def __add__(self, other: "Moments") -> "Moments":
        """Of both sets of points."""
        return Moments(self.n + other.n, self.total + other.total, self.products + other.products)


def moments(points: Tensor) -> Moments:
    """Of points `(n, dimensions)`."""
    n = torch.tensor(float(len(points)), dtype=torch.float64, device=points.device)
    return Moments(n, points.sum(dim=0), points.T @ points)


def draw_seeds(known: Moments, count: int, random: np.random.Generator) -> Tensor:
    """Points `(count, dimensions)` drawn from the Gaussian with these moments: none is one of the points."""
    mean = known.total / known.n
    covariance = (known.products / known.n - torch.outer(mean, mean)).numpy()
    variances, axes = np.linalg.eigh(covariance)
    # What rounding leaves of a direction in which nothing varies may be below zero.
    spread = axes * np.sqrt(variances.clip(min=0))
    return mean + torch.from_numpy(random.standard_normal((count, len(mean))) @ spread.T)


@dataclass(frozen=True)
class Cells:
    """What is known of the points around each centroid.

    Attributes:
        totals: Σ x of each cell `(centroids, dimensions)`.
        counts: its points `(centroids,)`.
    """

    totals: Tensor
    counts: Tensor

    def __add__(self, other: "Cells") -> "Cells":
        """Of both sets of points."""
        return Cells(self.totals + other.totals, self.counts + other.counts)

    def only(self, disclosed: Tensor) -> "Cells":
        """Those of some cells `(centroids,)` bool; of the others zeros."""
        return Cells(self.totals * disclosed.unsqueeze(1), self.counts * disclosed)

    def move(self, centroids: Tensor) -> Tensor:
        """The centroids after a step; one whose cell is empty stays where it is."""
        means = self.totals / self.counts.clamp(min=1).unsqueeze(1)
        return torch.where(self.counts.unsqueeze(1) > 0, means, centroids)


def nearest(points: Tensor, centroids: Tensor) -> Tensor:
    """The nearest centroid of each point `(n,)`."""
    # ‖x − c‖² = ‖x‖² − 2 (x·c − ‖c‖²/2), and ‖x‖² is the same for all centroids.
    return (points @ centroids.T - centroids.square().sum(dim=1) / 2).argmax(dim=1)


def cells(points: Tensor, own: Tensor, count: int) -> Cells:
    """The cells of points `(n, dimensions)` whose nearest of so many centroids are `own` `(n,)`."""
    totals = points.new_zeros(count, points.shape[1]).index_add_(0, own, points)
    return Cells(totals, torch.bincount(own, minlength=count).to(points.dtype))


ASKED = "patches"  # in a client's store; below no stage, so that nothing takes it back


def answer_once(broadcast: Broadcast, client: Client, part: str) -> None:
    """Take note that a request was asked of a part of the pictures.

    Raises:
        MessageError: when another one was.
    """
    state = client.store.load(client.id, ASKED, 1)
    known = dict(state.tensors) if state is not None else {}
    asked = torch.frombuffer(bytearray.fromhex(request_digest(broadcast)), dtype=torch.uint8)
    if part not in known:
        client.store.save(client.id, ASKED, 0, State({**known, part: asked}))
    elif not torch.equal(known[part], asked):
        raise MessageError(
            f"{client.id} was asked `{broadcast.ask}` of pictures of which it has answered it otherwise in "
            "this run; the difference could tell single patches. A run learns one codebook: continue it with "
            "--resume, or begin another"
        )


MOMENTS, CELLS = "patch_moments", "patch_cells"  # the requests
CODEBOOK = "codebook"
BATCH = 64  # pictures at a time
WHITE = 255
PATIENTS = 4  # of a part, times `privacy.min_count`


class Codebook(Tokenizer):
    """A codebook of patches that all clients learn before the first round; a token is the nearest code.

    1. Every client sends n, Σ x and Σ x xᵀ over patches. The server draws seeds from the Gaussian with that
       mean and covariance: no seed is a patch.
    2. Lloyd's steps: the server sends its centroids, every client the sum and the number of patches around
       each, but for cells of fewer than `min_members` patches or `privacy.min_count` patients, which it
       leaves at zero.

    Every patient of a client is asked about once (`parts_of`): the moments are of some, each step of others.
    Cells that differ by one patch between two steps would have sums that differ by that patch; here no two
    sums are of a patch in common. A client answers for each part once in a run (`answer_once`). One of few
    patients takes part in the first steps alone.

    Patches are the pixels as stored, 0 to 255; codes are the centroids over 255. Moments of fewer patches
    than a patch has pixels are not sent, since the patches could be solved for, unless single patients may be
    disclosed.

    Patches are compared as they are, so codes differ in colour before they differ in structure: of lesions on
    MILK10k, patches a ninth of a picture wide, 95 % of the codes' variance is in their mean colour.

    Departures: Lloyd's steps are over all points each; here each is over a part. Bao et al. 2022 take their
    tokens from DALL-E's dVAE (`training.algorithms.objectives.beit`).

    Attributes:
        size: how many codes.
        iterations: Lloyd's steps.
        min_members: the fewest patches whose sum leaves a client; they are of `privacy.min_count` patients,
            too.
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
                "no client has patches of enough patients to learn a codebook from (privacy.min_count, "
                "objective.tokenizer.min_members); bring more pictures, or name a tokenizer dalle"
            )
        centroids = draw_seeds(known, self.size, generator(seed, "codebook"))
        for step in range(1, self.iterations + 1):
            centroids = self.step(ask(CELLS, {"centroids": centroids}, {"step": step}), centroids)
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
        raise unknown_request(broadcast)

    def answer_moments(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Tensors:
        """n, Σ x and Σ x xᵀ of the patches of a client's first part; zeros where they are too few."""
        found = none = Moments.none(grid.pixels, client.local_model.device)
        part = self.part(broadcast, client, 0)
        for points, _ in self.points(part, client, grid):
            found += moments(points)
        least = self.min_members if client.min_count <= 1 else max(self.min_members, grid.pixels)
        enough = part.num_people >= client.min_count and found.n >= least
        disclosed = found if enough else none
        return {"n": disclosed.n.cpu(), "total": disclosed.total.cpu(), "products": disclosed.products.cpu()}

    def answer_cells(self, broadcast: Broadcast, client: Client, grid: PatchGrid) -> Tensors:
        """Sum and number of patches around each centroid, of a step's own part; small cells withheld.

        Raises:
            MessageError: when the centroids are not so many of this job's patches, when there is no such
                step, or when it was asked for around others.
        """
        arrived, step = broadcast.tensors.get("centroids", torch.empty(0)), broadcast.options.get("step")
        if arrived.shape != (self.size, grid.pixels):
            raise MessageError(
                f"{client.id} was sent centroids of shape {tuple(arrived.shape)}; "
                f"expected {(self.size, grid.pixels)}"
            )
        if not isinstance(step, int) or not 1 <= step <= self.iterations:
            raise MessageError(
                f"{client.id} was asked for step {step} of a codebook; expected 1 to {self.iterations}"
            )
        centroids = arrived.to(client.local_model.device, torch.float64)
        found = Cells(torch.zeros_like(centroids), centroids.new_zeros(self.size))
        part = self.part(broadcast, client, step)
        met = torch.zeros(self.size, part.num_people, dtype=torch.bool, device=centroids.device)
        for points, whose in self.points(part, client, grid):
            own = nearest(points, centroids)
            found += cells(points, own, self.size)
            met[own, whose] = True
        enough = (found.counts >= self.min_members) & (met.sum(dim=1) >= client.min_count)
        disclosed = found.only(enough)
        return {"totals": disclosed.totals.cpu(), "counts": disclosed.counts.cpu()}

    def part(self, broadcast: Broadcast, client: Client, step: int) -> Examples:
        """The pictures of a step, 0 for the moments; none after a client's last part."""
        answer_once(broadcast, client, f"{step}")
        examples = client.examples("train")
        random = generator(client.seed, client.id, "codebook's pictures")
        if self.pictures is not None and self.pictures < len(examples):
            kept = random.choice(len(examples), self.pictures, replace=False)
            examples = examples.where(np.isin(np.arange(len(examples)), kept))
        return examples.where(
            parts_of(examples.people, self.iterations + 1, client.min_count, random) == step
        )

    def points(self, part: Examples, client: Client, grid: PatchGrid) -> Iterator[tuple[Tensor, Tensor]]:
        """Patches of some pictures at a time `(patches, pixels)`, 0 to 255, float64, and whose `(patches,)`.

        Raises:
            DataError: when the pictures are not of the size that the encoder takes.
        """
        check_pictures(client.id, part.images, grid)
        people = np.unique(part.people, return_inverse=True)[1].reshape(-1)
        for positions in in_batches(np.arange(len(part)), BATCH):
            images = torch.from_numpy(part.batch(positions)).to(client.local_model.device)
            whose = torch.from_numpy(people[positions]).to(images.device).repeat_interleave(grid.patches)
            yield patchify(images.permute(0, 3, 1, 2).double(), grid).flatten(0, 1), whose

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


def parts_of(
    people: NDArray[np.int64], parts: int, min_count: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """The part of each picture `(n,)`, from whose they are: so many parts, fewer where patients are few.

    A part has at least four times `min_count` patients, so that many cells have `min_count`; there are two
    parts at least, the moments' and one step's.
    """
    owners, owner = np.unique(people, return_inverse=True)
    parts = max(2, min(parts, len(owners) // (PATIENTS * max(min_count, 1))))
    return random.permutation(np.arange(len(owners)) % parts)[owner.reshape(-1)]


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

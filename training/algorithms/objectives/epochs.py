"""The epochs of local training: which pictures a batch has, and the mean losses that are reported.

With FedVC (Hsu et al. 2020) every client takes the same number of pictures a round, and so the same number of
steps: a large client is there as several virtual ones, each with a part of its pictures, and a small client's
pictures come more than once.

A subgroup's loss is disclosed where pictures of `min_count` patients were drawn, however many the client
has: of one patient it would be the model's own answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.augmentations import augment
from training.algorithms.objectives.base import Batch, LocalRound, Objective
from training.data.cells import count_by_subgroup, count_people, name_losses
from training.data.dataset import Examples
from training.messages import Tensors
from training.models.classifier import to_model_input

ClassSampling = Literal["class-balanced", "uniform"]
Sampling = ClassSampling | Literal["square-root", "subgroup-balanced"]
ClassWeights = Literal["none", "inverse-frequency"]


def epoch_order(
    labels: NDArray[np.int64],
    sampling: Sampling,
    random: np.random.Generator,
    samples: int | None = None,
    subgroups: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Positions `(samples,)` of one epoch over n pictures.

    `uniform` is a permutation, as many of them as it takes or the first part of one. `class-balanced` draws
    with replacement so that every class that the client holds is expected equally often ("resampling", Xu et
    al. 2023, section V). `subgroup-balanced` does so for every class of every subgroup that the client holds,
    as far as `subgroups` tells them apart; undeclared pictures are one more subgroup. `square-root` is
    halfway between uniform and class-balanced: class k is expected as often as √n_k is of the sum of all such
    roots, n_k being its pictures (Mahajan et al. 2018, section 2.2).

    Args:
        labels: of the pictures, `(n,)`.
        sampling: how they are drawn.
        random: of the draw.
        samples: how many are drawn; n by default.
        subgroups: of the pictures, `(n,)`.
    """
    n = len(labels)
    wanted = n if samples is None else samples
    if sampling == "uniform":
        return repeated(n, wanted, random)
    return random.choice(n, size=wanted, p=draw_probabilities(labels, sampling, subgroups))


def draw_probabilities(
    labels: NDArray[np.int64], sampling: Sampling, subgroups: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """The share of all draws of `epoch_order` that each picture is expected to have, `(n,)`."""
    if sampling == "uniform":
        return np.full(len(labels), 1 / max(len(labels), 1))
    kinds = labels[:, np.newaxis]
    if sampling == "subgroup-balanced" and subgroups is not None:
        kinds = np.stack([labels, subgroups], axis=1)
    present, inverse, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    shares = np.sqrt(counts) if sampling == "square-root" else counts
    probabilities = 1.0 / (len(present) * shares[inverse])
    normalised: NDArray[np.float64] = probabilities / probabilities.sum()
    return normalised


def repeated(n: int, wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """So many positions of n pictures, none again before each has come as often."""
    times = -(-wanted // n) if wanted else 0
    orders = [random.permutation(n) for _ in range(times)]
    return np.concatenate(orders)[:wanted] if orders else np.empty(0, dtype=np.int64)


def class_weights(
    labels: NDArray[np.int64], num_classes: int, weighting: ClassWeights, device: torch.device
) -> Tensor | None:
    """What the loss of a picture of each class counts `(classes,)`; None where all count alike.

    `inverse-frequency`: w_k = n / (K n_k) with n_k the client's n labelled pictures of class k and K the
    classes that it holds, so that the mean weight of its pictures is 1. A class that it does not hold has 0.
    """
    if weighting == "none":
        return None
    held = np.bincount(labels[labels >= 0], minlength=num_classes)
    present = held > 0
    weights = np.zeros(num_classes)
    weights[present] = held.sum() / (present.sum() * held[present])
    return torch.from_numpy(weights).float().to(device)


def in_batches(order: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """`order` cut into batches; a last batch of one picture joins the one before it.

    A batch of one has no variance, on which batch normalisation fails.
    """
    cuts = list(range(batch_size, len(order), batch_size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()
    return np.split(order, cuts)


class SubgroupLosses:
    """Sums of losses by subgroup, on the device; undeclared pictures take the last place."""

    def __init__(self, work: LocalRound, examples: Examples) -> None:
        self._names = work.subgroups
        self._min_count = work.min_count
        self._examples = examples
        self._subgroup_of = torch.from_numpy(examples.subgroups).to(work.device) % (len(self._names) + 1)
        self.reset()

    def reset(self) -> None:
        """Start an epoch: all sums are 0."""
        shape, device = len(self._names) + 1, self._subgroup_of.device
        self._sums = torch.zeros(shape, dtype=torch.float64, device=device)
        self._numbers = torch.zeros(shape, dtype=torch.float64, device=device)
        self._seen = np.zeros(len(self._examples), dtype=np.bool_)

    def add(self, positions: NDArray[int64], losses: Tensor, shares: Tensor | None = None) -> None:
        """Add the losses `(batch,)` of the pictures at `positions` `(batch,)`.

        Each counts by its share `(batch,)`, where a part of a picture was shown; whole by default.
        """
        subgroups = self._subgroup_of[torch.from_numpy(positions).to(self._subgroup_of.device)]
        counted = torch.ones_like(losses, dtype=torch.float64) if shares is None else shares.double()
        self._sums.index_add_(0, subgroups, counted * losses.detach().double())
        self._numbers.index_add_(0, subgroups, counted)
        self._seen[positions] = True

    @property
    def drawn(self) -> Examples:
        """The pictures whose losses were added in this epoch, each once."""
        return self._examples.where(self._seen)

    @property
    def enough_unlabelled(self) -> bool:
        """Whether the unlabelled pictures drawn are of enough patients to report statistics of them."""
        drawn = self.drawn
        return drawn.where(drawn.labels < 0).num_people >= max(self._min_count, 1)

    def num_examples(self) -> Mapping[str, int]:
        """Pictures by subgroup."""
        return count_by_subgroup(self._examples, self._names)

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over what was drawn; of too few patients none."""
        places, drawn = len(self._names) + 1, self.drawn
        enough = count_people(drawn.subgroups % places, drawn.people, places) >= self._min_count
        numbers = self._numbers * torch.from_numpy(enough).to(self._sums)
        return name_losses(self._sums, numbers, self._names)


class SubgroupLossTask:
    """The half of a `LocalTask` that reports, where nothing follows a step and only weights travel."""

    def __init__(self, work: LocalRound, examples: Examples) -> None:
        """Reports on `examples`, those of the client's that the objective trains on."""
        self._losses = SubgroupLosses(work, examples)

    def after_step(self) -> None:
        """Nothing follows a step."""

    def num_examples(self) -> Mapping[str, int]:
        """The pictures trained on, by subgroup."""
        return self._losses.num_examples()

    def losses(self) -> Mapping[str, float]:
        """Mean loss by subgroup over the last epoch."""
        return self._losses.losses()

    def outgoing(self) -> Tensors:
        """Nothing travels besides weights."""
        return {}

    def keep(self) -> Tensors:
        """Nothing stays."""
        return {}

    def scalars(self) -> Mapping[str, float]:
        """Nothing more is logged."""
        return {}


@dataclass(frozen=True)
class Streams:
    """What is drawn from where.

    Attributes:
        labels: the class of each of the client's pictures `(n,)`, -1 where there is none.
        batch_size: labelled pictures in a batch.
        ratio: unlabelled pictures in a batch for each labelled one.
        samples: labelled pictures in an epoch, the same for every client (FedVC); None for all that there
            are, or as many as it takes to see each unlabelled one once.
        sampling: how labelled pictures are drawn.
    """

    labels: NDArray[np.int64]
    batch_size: int
    ratio: int
    samples: int | None
    sampling: ClassSampling

    @property
    def labelled(self) -> NDArray[np.int64]:
        """Where pictures with a label are."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def unlabelled(self) -> NDArray[np.int64]:
        """Where pictures without a label are."""
        return np.flatnonzero(self.labels < 0)

    @property
    def steps(self) -> int:
        """Batches in an epoch; none has a single picture of a kind, on which batch normalisation fails."""
        if self.samples is not None:
            return min(ceil(self.samples / self.batch_size), self.samples // 2)
        return max(
            ceil(len(self.labelled) / self.batch_size),
            ceil(len(self.unlabelled) / (self.batch_size * self.ratio)),
        )

    def batches(self, random: np.random.Generator) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Positions of labelled and of unlabelled pictures, batch by batch.

        Both streams have as many batches; the one with fewer pictures begins again, in a new order, as often
        as it must. A client without pictures of one kind has empty batches of it.
        """
        total = self.steps * self.batch_size if self.samples is None else self.samples
        named, unnamed = self.labelled, self.unlabelled
        if len(named):
            named = named[epoch_order(self.labels[named], self.sampling, random, total)]
        if len(unnamed):
            unnamed = unnamed[repeated(len(unnamed), total * self.ratio, random)]
        parts = (np.array_split(stream, self.steps) for stream in (named, unnamed))
        yield from zip(*parts, strict=True)


class UnlabelledTask(SubgroupLossTask):
    """One client's round over all its pictures, labelled or not.

    A client with fewer pictures than a batch has one batch of all of them.
    """

    def __init__(self, objective: Objective, work: LocalRound, *, views: int) -> None:
        """Shows each picture of a batch in so many `views`, one batch of views after the other."""
        super().__init__(work, work.examples)
        self._objective = objective
        self._work = work
        self._views = views

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every picture once; a batch's images are `(views * batch, 3, height, width)`."""
        self._losses.reset()
        work, random = self._work, self._work.torch_generator(f"views {epoch}")
        order = work.numpy_generator(f"order {epoch}").permutation(len(work.examples))
        for positions in in_batches(order, self._objective.batch_size):
            images = to_model_input(work.examples.batch(positions), work.device)
            views = [augment(images, self._objective.augment, random) for _ in range(self._views)]
            yield Batch(torch.cat(views), positions)

"""Supervised learning with cross-entropy, and mixup of its batches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy import int64
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from training.algorithms.augmentations import augment_inputs
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import (
    ClassWeights,
    Sampling,
    SubgroupLossTask,
    class_weights,
    draw_probabilities,
    epoch_order,
    in_batches,
)
from training.models import Classifier
from training.models.classifier import CaseBatch, Inputs, as_inputs


@dataclass(frozen=True)
class MixedBatch(Batch[Inputs]):
    """A batch of mixtures.

    Attributes:
        partners: the positions `(batch,)` of what each was mixed with.
        shares: how much of each is its own, `(batch,)`; 1 where nothing was mixed in.
    """

    partners: NDArray[int64]
    shares: Tensor


def mix(batch: Batch[Inputs], alpha: float, random: np.random.Generator) -> MixedBatch:
    """Mixup: the network is shown mixtures of two pictures, and is to say both labels (Zhang et al. 2018).

        x̃ = λ x_i + (1 − λ) x_j,   l̃ = λ l(x̃, y_i) + (1 − λ) l(x̃, y_j),   λ ~ Beta(α, α)

    λ is drawn once a batch and j is i's partner in a permutation of the batch, as in the authors' code. For
    cross-entropy l̃ is the loss against the mixed label λ y_i + (1 − λ) y_j.

    Of cases the pictures are mixed slot by slot, where both cases have pictures of the same kinds in the same
    slots; any other is left as it is, with its own label. A mixed case keeps the facts of i: an age could be
    mixed, a sex could not.

    Departures: the larger of λ and 1 − λ is i's (as in MixMatch, Berthelot et al. 2019). Over permutations
    the mixtures are the same ones; but so the facts are of the case that more is shown of.
    """
    inputs, drawn = batch.images, random.beta(alpha, alpha)
    share = max(drawn, 1 - drawn)
    order = random.permutation(len(inputs))
    if isinstance(inputs, CaseBatch):
        partner = torch.from_numpy(order).to(inputs.kinds.device)
        alike = (inputs.kinds == inputs.kinds[partner]).all(dim=1)
        shares = torch.where(alike, share, 1.0).to(inputs.images.dtype)
        mixed: Inputs = replace(inputs, images=aggregation(inputs.images, partner, shares))
    else:
        partner = torch.from_numpy(order).to(inputs.device)
        shares = inputs.new_full((len(inputs),), share)
        mixed = aggregation(inputs, partner, shares)
    return MixedBatch(mixed, batch.positions, batch.positions[order], shares)


def aggregation(images: Tensor, partner: Tensor, shares: Tensor) -> Tensor:
    """λ x_i + (1 − λ) x_j, with j = `partner` `(batch,)` and λ = `shares` `(batch,)`."""
    return torch.lerp(images[partner], images, shares.view(-1, *[1] * (images.ndim - 1)))


class Supervised(Objective):
    """Supervised cross-entropy on a client's labelled pictures (Xu et al. 2023, section IV-A).

    l_ce(p, t) = − Σ_i t_i log p_i, and L_c = (1 / N_c) Σ_n l_ce(p_n, t_n) over the last local epoch.

    With label smoothing (Szegedy et al. 2016, section 7) what is minimised is l_ce(p, t') with t'_i = (1 − ε)
    t_i + ε / K for K classes. L_c stays that of t: it can be compared with that of other clients and models,
    and with log K. With mixup (`mix`) a mixture's loss by each of its two labels counts in L_c
    as the picture's that has the label, by its share.

    Departures: with class-balanced resampling a local epoch draws N_c pictures with replacement, so L_c is
    the mean over the pictures drawn. With class weights (Bdair et al. 2022) a picture's loss counts as its
    class does; smoothed, each − t'_i log p_i as class i does. Where an aggregator weighs cells (`group-dro`),
    what is minimised counts each picture as its cell does, and L_c does not.

    Attributes:
        sampling: how pictures are drawn.
        samples: pictures in a local epoch, the same for every client (FedVC); None for all that it has.
        class_weights: whether rare classes count more.
        label_smoothing: ε, the share of a label that is spread evenly over all classes.
        mixup: α, how evenly pictures are mixed with one another; 0 mixes none.
    """

    takes_cases: ClassVar[bool] = True
    weighs_cells: ClassVar[bool] = True
    name: Literal["supervised"] = "supervised"
    sampling: Sampling = "class-balanced"
    samples: int | None = Field(None, ge=2)
    class_weights: ClassWeights = "none"
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    mixup: float = Field(0.0, ge=0, le=32)

    def begin(self, model: Classifier, work: LocalRound) -> LocalTask:
        """Prepare one client's round."""
        return SupervisedTask(self, model, work)


class SupervisedTask(SubgroupLossTask):
    """One client's round of supervised training."""

    def __init__(self, config: Supervised, model: Classifier, work: LocalRound) -> None:
        self._examples = work.examples.where(work.examples.labels >= 0)
        super().__init__(work, self._examples)
        self._config = config
        self._model = model
        self._work = work
        self._labels = torch.from_numpy(self._examples.labels).to(work.device)
        self._weights = class_weights(
            self._examples.labels, model.num_classes, config.class_weights, work.device
        )
        self._counts: Tensor | None = None  # what each picture's loss counts
        if work.cell_weights is not None:
            drawn = draw_probabilities(self._examples.labels, config.sampling, self._examples.subgroups)
            counts = work.cell_weights.of_each(self._examples, drawn)
            self._counts = torch.from_numpy(counts).float().to(work.device)

    def batches(self, epoch: int) -> Iterator[Batch[Inputs]]:
        """Class-balanced or uniform batches, augmented."""
        self._losses.reset()
        order = epoch_order(
            self._examples.labels,
            self._config.sampling,
            self._work.numpy_generator(f"order {epoch}"),
            self._config.samples,
            self._examples.subgroups,
        )
        examples = self._examples.in_drawn_views(self._work.numpy_generator(f"views {epoch}"))
        random = self._work.torch_generator(f"augment {epoch}")
        aggregations = self._work.numpy_generator(f"mixup {epoch}")
        for positions in in_batches(order, self._config.batch_size):
            inputs = as_inputs(examples, positions, self._work.device)
            batch = Batch(augment_inputs(inputs, self._config.augment, random), positions)
            yield mix(batch, self._config.mixup, aggregations) if self._config.mixup else batch

    def loss(self, batch: Batch[Inputs]) -> Tensor:
        """Mean cross-entropy of the batch."""
        logits = self._model(batch.images)
        if not isinstance(batch, MixedBatch):
            return self.against(logits, batch.positions).mean()
        own = self.against(logits, batch.positions, batch.shares)
        return (own + self.against(logits, batch.partners, 1 - batch.shares)).mean()

    def against(self, logits: Tensor, positions: NDArray[np.int64], shares: Tensor | None = None) -> Tensor:
        """What is minimised, `(batch,)`, by the labels of those at `positions`, whose losses are noted."""
        drawn = torch.from_numpy(positions).to(self._work.device)
        labels = self._labels[drawn]
        losses = F.cross_entropy(logits, labels, self._weights, reduction="none")
        self._losses.add(positions, losses, shares)
        smoothing = self._config.label_smoothing
        if smoothing:
            losses = F.cross_entropy(
                logits, labels, self._weights, reduction="none", label_smoothing=smoothing
            )
        if self._counts is not None:
            losses = self._counts[drawn] * losses
        return losses if shares is None else shares * losses

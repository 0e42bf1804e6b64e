"""Supervised cross-entropy on a client's labelled pictures (Xu et al. 2023, section IV-A).

l_ce(p, t) = − Σ_i t_i log p_i, and L_c = (1 / N_c) Σ_n l_ce(p_n, t_n) over the last local epoch.

Departures: with class-balanced resampling a local epoch draws N_c pictures with replacement, so L_c is the
mean over the pictures drawn. With class weights (Bdair et al. 2022) a picture's loss counts as its class
does.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from training.algorithms.augmentations.of_inputs import augment_inputs
from training.algorithms.objectives.base import Batch, LocalRound, LocalTask, Objective
from training.algorithms.objectives.components.subgroup_losses import SubgroupLossTask
from training.algorithms.sampling import ClassWeights, Sampling, class_weights, epoch_order, in_batches
from training.models import Classifier
from training.models.case_batch import Inputs, as_inputs


class Supervised(Objective):
    """Cross-entropy against the labels; pictures without one are left out.

    Attributes:
        sampling: how pictures are drawn.
        samples: pictures in a local epoch, the same for every client (FedVC); None for all that it has.
        class_weights: whether rare classes count more.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"samples", "class_weights"})
    takes_cases: ClassVar[bool] = True
    name: Literal["supervised"] = "supervised"
    sampling: Sampling = "class-balanced"
    samples: int | None = Field(None, ge=2)
    class_weights: ClassWeights = "none"

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
        for positions in in_batches(order, self._config.batch_size):
            inputs = as_inputs(examples, positions, self._work.device)
            yield Batch(augment_inputs(inputs, self._config.augment, random), positions)

    def loss(self, batch: Batch[Inputs]) -> Tensor:
        """Mean cross-entropy of the batch."""
        positions = torch.from_numpy(batch.positions).to(self._work.device)
        losses = F.cross_entropy(
            self._model(batch.images), self._labels[positions], self._weights, reduction="none"
        )
        self._losses.add(batch.positions, losses)
        return losses.mean()

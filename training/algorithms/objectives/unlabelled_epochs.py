"""The epochs of self-supervised objectives: every picture once, in an order of its own, no labels."""

from collections.abc import Iterator

import torch

from training.algorithms.augmentations.batch import augment
from training.algorithms.objectives.base import Batch, LocalRound, Objective
from training.algorithms.objectives.components.subgroup_losses import SubgroupLossTask
from training.algorithms.sampling import in_batches
from training.models.case_batch import to_model_input


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

"""The epochs of self-supervised objectives: every picture once, in an order of its own, no labels."""

from collections.abc import Iterator

import torch

from training.augmentations import augment
from training.objectives.base import Batch, LocalWork, Objective
from training.objectives.ledger import LedgerTask
from training.pictures import to_model_input
from training.sampling import in_batches


class UnlabelledTask(LedgerTask):
    """One client's round over all its pictures, labelled or not.

    A client with fewer pictures than a batch has one batch of all of them.
    """

    def __init__(self, objective: Objective, work: LocalWork, *, views: int) -> None:
        """Shows each picture of a batch in so many `views`, one batch of views after the other."""
        super().__init__(work, work.examples)
        self._objective = objective
        self._work = work
        self._views = views

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every picture once; a batch's images are `(views * batch, 3, height, width)`."""
        self._ledger.forget()
        work, random = self._work, self._work.torch_generator(f"views {epoch}")
        order = work.numpy_generator(f"order {epoch}").permutation(len(work.examples))
        for positions in in_batches(order, self._objective.batch_size):
            images = to_model_input(work.examples.batch(positions), work.device)
            views = [augment(images, self._objective.augment, random) for _ in range(self._views)]
            yield Batch(torch.cat(views), positions)

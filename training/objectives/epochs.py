"""The epochs of self-supervised objectives: every picture once, in an order of its own, no labels."""

from collections.abc import Iterator

from training.objectives.base import Batch, LocalWork, Objective
from training.pictures import to_model_input
from training.sampling import in_batches


def unlabelled_batches(objective: Objective, work: LocalWork, epoch: int) -> Iterator[Batch]:
    """One local epoch over all pictures of the client, labelled or not, unchanged.

    A client with fewer pictures than a batch has one batch of all of them.
    """
    order = work.numpy_generator(f"order {epoch}").permutation(len(work.examples))
    for positions in in_batches(order, objective.batch_size):
        yield Batch(to_model_input(work.examples.batch(positions), work.device), positions)

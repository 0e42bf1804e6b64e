"""Which of several processes that divide every batch of one client's training among them this is.

Each process draws the whole batch, so that a picture is drawn, augmented and mixed alike whatever their
number, and computes the loss of its own part.
"""

from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """A process's place among those that train together.

    Attributes:
        rank: its place, from 0.
        of: how many there are; 1 where a client trains in one process.
    """

    rank: int = 0
    of: int = 1

    def __str__(self) -> str:
        return f"process {self.rank + 1} of {self.of}"

    def part(self, count: int) -> slice:
        """Which of `count` pictures are this process's: parts are as equal as can be, and may be empty."""
        return slice(count * self.rank // self.of, count * (self.rank + 1) // self.of)

    def added(self, tensor: Tensor) -> Tensor:
        """The sum of every process's tensor; all of them ask, in the same order. Inputs stay as they are."""
        if self.of == 1:
            return tensor
        total = tensor.clone()
        torch.distributed.all_reduce(total)
        return total


ALONE = Share()


def mean_loss(losses: Tensor) -> Tensor:
    """The mean of the losses of pictures `(pictures,)`; of none it is 0, with a gradient of zeros."""
    return losses.mean() if len(losses) else losses.sum()

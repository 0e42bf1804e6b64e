"""A batch divided among processes: each computes its part, and torch averages the gradients.

For n pictures of which process r of N has n_r, and losses that are means over pictures,

    ∇ L = (1/N) Σ_r ∇ (N n_r / n) L_r,

so each process weighs its loss by N n_r / n, and `DistributedDataParallel` (Li et al. 2020, "PyTorch
Distributed") takes the mean of what they have. A mean of means would count the pictures of a short part more.
A process without a picture of a batch has a gradient of zeros.

Batch normalisation normalises by the statistics of the whole batch (`synchronised`), as one process does.
Goyal et al. 2017 (section 2.3) keep those of each process apart, which makes them statistics of n / N
pictures: another function to minimise, and a setting of a hospital's machine would change it.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.algorithms.objectives.base import Batch, LocalTask
from training.algorithms.share import Share
from training.errors import JobError


class LossOfPart(nn.Module):
    """The weighted loss of one process's part of a batch, as a module, for torch to average its gradients.

    Args:
        model: whose parameters learn.
        task: computes losses with `model`.
        share: whose part.
    """

    def __init__(self, model: nn.Module, task: LocalTask, share: Share) -> None:
        super().__init__()
        self.model = model
        self._task, self._share = task, share

    def forward(self, batch: Batch[Any]) -> Tensor:
        """(N n_r / n) L_r."""
        part = batch.part(self._share)
        return self._task.loss(part) * (len(part) * self._share.of / len(batch))


def divided(model: nn.Module, task: LocalTask, share: Share) -> Callable[[Batch[Any]], Tensor]:
    """The loss of this process's part of a batch, whose gradients are averaged over all processes.

    Raises:
        JobError: statistics of whole batches are to be gathered on a processor.
    """
    refuse_statistics(model)
    # An objective may leave a layer alone, such as the head of a classifier that is pre-trained.
    return DistributedDataParallel(LossOfPart(model, task, share), find_unused_parameters=True)


def refuse_statistics(model: nn.Module) -> None:
    """Refuse layers that gather statistics of a batch where torch cannot gather them over processes.

    Raises:
        JobError: naming one, and what to do.
    """
    for name, layer in model.named_modules():
        gathers = isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training
        if gathers and next(model.parameters()).device.type == "cpu":
            raise JobError(
                f"{name} ({type(layer).__name__}) gathers statistics of a batch, which torch does over "
                "several processes on GPUs alone; train in one process on this machine, or use a model "
                "without batch normalisation, e.g. model.options: {norm_layer: groupnorm} of a ResNet"
            )

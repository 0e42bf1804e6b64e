"""Worker processes of one machine share its GPUs: each takes one, in turn."""

import torch


def take_gpu(place: int) -> None:
    """Makes one GPU this process's own, before a model is put there; without several nothing is changed.

    Args:
        place: which of the workers this is, from 0.
    """
    gpus = torch.cuda.device_count()
    if gpus > 1:
        torch.cuda.set_device(place % gpus)

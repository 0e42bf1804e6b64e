"""How much of a GPU's arithmetic is used: counted operations over what a large matrix product reaches."""

from collections.abc import Callable
from time import perf_counter

import torch
from torch.utils.flop_counter import FlopCounterMode


def synchronise(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def count_operations(work: Callable[[], object]) -> int:
    """Floating-point operations of matrix products and convolutions in `work`, backward passes included."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def matrix_peak(device: torch.device, side: int = 8192, repeats: int = 30) -> float:
    """Operations a second of a bf16 product of two square matrices, the fastest of `repeats`."""
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(repeats):
        synchronise(device)
        started = perf_counter()
        left @ right
        synchronise(device)
        seconds.append(perf_counter() - started)
    return 2 * side**3 / min(seconds)

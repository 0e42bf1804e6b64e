"""How processes of one machine that train together find each other, and on which device each computes.

They meet at a file of their own folder and talk over the loopback interface: no other machine is involved.
"""

import os
import socket
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed

from training.algorithms.local_model import Device
from training.algorithms.share import Share
from training.engines.gpus import take_gpu

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def backend_of(share: Share, device: Device) -> str:
    """`nccl` where every process has a GPU to itself, else `gloo`."""
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    return "nccl" if gpus >= share.of else "gloo"


def meet(share: Share, device: Device, file: Path, silence: float) -> None:
    """Take a device, and wait for the other processes.

    Args:
        share: which of them this is.
        device: of the job.
        file: where they meet; new for each meeting.
        silence: seconds after which a process that is waited for is taken to be gone.
    """
    if device != "cpu":
        take_gpu(share.rank)
    for name in INTERFACES:
        os.environ.setdefault(name, loopback())
    torch.distributed.init_process_group(
        backend_of(share, device),
        f"file://{file}",
        rank=share.rank,
        world_size=share.of,
        timeout=timedelta(seconds=silence),
    )


def loopback() -> str:
    """The name of the interface over which a machine talks to itself."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")

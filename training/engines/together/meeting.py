"""How processes of one machine that train together find each other, and on which device each computes.

On processors they talk by sockets that they inherited (`inherited_group`), and nothing listens. On GPUs they
talk by NCCL, whose sockets listen on the loopback interface and take no one who does not know a number that
stands in a file of their own folder. No other machine is involved, whatever the environment says.
"""

import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from training.algorithms.local_model import Device
from training.algorithms.share import Share
from training.engines.gpus import take_gpu
from training.engines.together.inherited_group import InheritedGroup, Sockets

# gloo is what torch puts around another backend where TORCH_DISTRIBUTED_DEBUG asks for it.
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
ADDRESSES = ("NCCL_COMM_ID",)  # of a meeting with other machines, to which everybody has the key
INHERITED = "inherited"


def backend_of(share: Share, device: Device) -> str:
    """`nccl` where every process has a GPU to itself, else ours."""
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    return "nccl" if gpus >= share.of else INHERITED


def meet(share: Share, device: Device, file: Path, sockets: Sockets, silence: float) -> None:
    """Take a device, and wait for the other processes.

    Args:
        share: which of them this is.
        device: of the job.
        file: where they meet; new for each meeting, in a folder that nobody else reads.
        sockets: to the others.
        silence: seconds after which a process that is waited for is taken to be gone.
    """
    if device != "cpu":
        take_gpu(share.rank)
    os.environ.update(dict.fromkeys(INTERFACES, loopback()))
    for name in ADDRESSES:
        os.environ.pop(name, None)

    def inherited(*_: Any) -> InheritedGroup:
        return InheritedGroup(share, sockets, silence)

    torch.distributed.Backend.register_backend(INHERITED, inherited, devices=["cpu"])
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

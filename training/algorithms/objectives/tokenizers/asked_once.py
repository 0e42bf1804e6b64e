"""What a client tells of patches it tells once in a run: the same again to the same question, to no other.

Sums around other centroids, of the same patches, would differ by the patches between two cells.
"""

import hashlib

import torch
from torch import Tensor

from training.algorithms.client import Client
from training.algorithms.client_state import State
from training.errors import MessageError
from training.messages.message import Broadcast

ASKED = "patches"  # in a client's store; below no stage, so that nothing takes it back


def answer_once(broadcast: Broadcast, client: Client, part: str) -> None:
    """Take note that a question was asked of a part of the pictures.

    Raises:
        MessageError: when another one was.
    """
    state = client.store.load(client.id, ASKED, 1)
    known = dict(state.tensors) if state is not None else {}
    asked = digest_of(broadcast)
    if part not in known:
        client.store.save(client.id, ASKED, 0, State({**known, part: asked}))
    elif not torch.equal(known[part], asked):
        raise MessageError(
            f"{client.id} was asked `{broadcast.ask}` of pictures of which it has answered it otherwise in "
            "this run; the difference could tell single patches. A run learns one codebook: continue it with "
            "--resume, or begin another"
        )


def digest_of(broadcast: Broadcast) -> Tensor:
    """The SHA-256 of what is asked, `(32,)` uint8."""
    found = hashlib.sha256(f"{broadcast.stage} {broadcast.track} {broadcast.ask}".encode())
    for name, tensor in sorted(broadcast.tensors.items()):
        found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return torch.frombuffer(bytearray(found.digest()), dtype=torch.uint8)

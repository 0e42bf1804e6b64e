"""What a client tells of patches it tells once in a run: the same again to the same question, to no other.

Sums around other centroids, of the same patches, would differ by the patches between two cells.
"""

import torch

from training.algorithms.client import Client
from training.algorithms.client_state import State
from training.errors import MessageError
from training.messages.message import Broadcast
from training.messages.question_digest import question_digest

ASKED = "patches"  # in a client's store; below no stage, so that nothing takes it back


def answer_once(broadcast: Broadcast, client: Client, part: str) -> None:
    """Take note that a question was asked of a part of the pictures.

    Raises:
        MessageError: when another one was.
    """
    state = client.store.load(client.id, ASKED, 1)
    known = dict(state.tensors) if state is not None else {}
    asked = torch.frombuffer(bytearray.fromhex(question_digest(broadcast)), dtype=torch.uint8)
    if part not in known:
        client.store.save(client.id, ASKED, 0, State({**known, part: asked}))
    elif not torch.equal(known[part], asked):
        raise MessageError(
            f"{client.id} was asked `{broadcast.ask}` of pictures of which it has answered it otherwise in "
            "this run; the difference could tell single patches. A run learns one codebook: continue it with "
            "--resume, or begin another"
        )

"""A client's half of compression: unpack what arrives, and pack the update that it sends.

The update is the difference d = θ_c − θ^t to what the client was sent, plus what rounding lost of its last
update: p = d + e, sent is Q(p), and e ← p − Q(p) stays in the client's store (error feedback: Seide et al.
2014; Karimireddy et al. 2019, Algorithm 1). A client that is asked seldom carries its e until it is.
"""

from dataclasses import replace

import torch
from torch import Tensor

from training.algorithms.client import Client, State
from training.messages.message import Broadcast, Tensors, Update
from training.seeds import derive_seed
from training.updates.compression.quantization import (
    Round,
    compressible,
    decode,
    encode,
    is_packed,
    stochastic,
)
from training.updates.settings import CompressionConfig


def opened(broadcast: Broadcast) -> Broadcast:
    """The question with its weights as numbers again."""
    return (
        replace(broadcast, tensors=decode(broadcast.tensors)) if is_packed(broadcast.tensors) else broadcast
    )


def packed(update: Update, received: Tensors, client: Client, compression: CompressionConfig) -> Update:
    """The update in the form in which it travels; what its rounding lost is kept.

    Args:
        update: what was trained.
        received: θ^t as the client was sent it.
        client: who trained.
        compression: the job's.
    """
    if compression.up == "exact":
        return update
    key = lost_key(update.stage, update.track)
    state = client.store.load(client.id, key, update.round) if compression.error_feedback else None
    lost_before = {} if state is None else state.tensors
    rounding: Round = torch.round
    if compression.rounding == "stochastic":
        seed = derive_seed(client.seed, update.stage, update.track, update.round, client.id, "rounding")
        rounding = stochastic(torch.Generator().manual_seed(seed))
    travels: dict[str, Tensor] = {}
    lost: dict[str, Tensor] = {}
    for name, value in update.tensors.items():
        if name not in received or not compressible(value, compression.exact_below):
            travels[name] = value
            continue
        wanted = value.float() - received[name].float()
        if name in lost_before:
            wanted += lost_before[name]
        pieces = encode(name, wanted, compression.up, rounding)
        travels |= pieces
        if compression.error_feedback:
            lost[name] = wanted - decode(pieces)[name]
    if lost:
        client.store.save(client.id, key, update.round, State(lost))
    return replace(update, tensors=travels)


def lost_key(stage: str, track: str) -> str:
    """Under what a client keeps what rounding lost of its updates of one model."""
    return f"{stage}/{track}/lost"

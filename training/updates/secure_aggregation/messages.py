"""The messages of a secure sum: three questions of the coordinator, and their tensors.

A client's answer to the question that is to be summed (`fit`, `evaluate`, …) holds its public keys in place
of its tensors, which wait at the client. Three questions follow, those of rounds 1 to 3 of Bonawitz et al.
2017 (Figure 4); their round 0, the keys, has come with the answer:

    share    everybody's public keys      → shares of the secrets, sealed for each of the others
    masked   the others' sealed shares    → y_u = x_u + PRG(b_u) + Σ_{u<v} PRG(s_uv) − Σ_{u>v} PRG(s_uv)
    unmask   whose y_v arrived            → shares of b_v of those, of the mask key of those that are gone
"""

import json

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig
from training.messages.message import Tensors
from training.updates.secure_aggregation.fixed_point import Entry, Layout
from training.updates.secure_aggregation.keys import NONCE_BYTES, TAG_BYTES
from training.updates.secure_aggregation.shamir import SHARE_BYTES

SHARE, MASKED, UNMASK = "share", "masked", "unmask"
QUESTIONS = (SHARE, MASKED, UNMASK)
WITHHELD = "withheld/"  # before the names of what comes in place of tensors
KEYS, LAYOUT = WITHHELD + "keys", WITHHELD + "layout"
SEALED, SELF_SHARES, KEY_SHARES = "sealed", "self_shares", "key_shares"
SEALED_BYTES = NONCE_BYTES + 2 * SHARE_BYTES + TAG_BYTES  # one share of each secret, sealed


class SumQuestion(FrozenConfig):
    """The options that all three questions share.

    Attributes:
        of: the question that is summed.
        threshold: t, how many must answer; for the transport, which waits. A client works it out itself.
    """

    of: str
    threshold: int


class ShareQuestion(SumQuestion):
    """Round 1. Attributes: `clients`, those whose keys are sent along."""

    clients: tuple[str, ...]


class MaskedQuestion(SumQuestion):
    """Round 2.

    Attributes:
        present: the places among `clients` of those whose shares are sent along, the client's own too.
        weight, total_weight: w_u, and W ≥ Σ |w|.
        layout: what is summed, in this order.
    """

    present: tuple[int, ...]
    weight: float
    total_weight: float = Field(gt=0)
    layout: tuple[Entry, ...]


class UnmaskQuestion(SumQuestion):
    """Round 3. Attributes: `survivors`, whose masked numbers arrived."""

    survivors: tuple[int, ...]


def bytes_tensor(content: bytes) -> Tensor:
    """Bytes as they travel."""
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def rows_tensor(rows: list[bytes], width: int) -> Tensor:
    """Rows of equal width as they travel, `(rows, width)`."""
    return bytes_tensor(b"".join(rows)).reshape(len(rows), width)


def tensor_bytes_of(tensor: Tensor) -> bytes:
    """The bytes that arrived."""
    return tensor.contiguous().numpy().tobytes()


def layout_tensor(tensors: Tensors) -> Tensor:
    """The layout of a client's own tensors as it travels."""
    entries = [Entry.of(name, tensor).model_dump() for name, tensor in tensors.items()]
    return bytes_tensor(json.dumps(entries).encode())


def read_layout(tensor: Tensor) -> Layout:
    """What `layout_tensor` made.

    Raises:
        ValueError: when it is none (pydantic's and json's errors are such).
    """
    return [Entry.model_validate(entry) for entry in json.loads(tensor_bytes_of(tensor))]

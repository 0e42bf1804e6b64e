"""The messages of a secure sum: four requests of the coordinator, and their tensors.

A client's answer to the request that is to be summed (`fit`, `evaluate`, …) holds its public keys in place
of its tensors, which wait at the client. The requests that follow are rounds 1 to 4 of Bonawitz et al. 2017
(Figure 4); their round 0, the keys, has come with the answer:

    share    all clients' public keys     → shares of the secrets, sealed for each of the others
    masked   the others' sealed shares    → y_u = x_u + PRG(b_u) + Σ_{u<v} PRG(s_uv) − Σ_{u>v} PRG(s_uv)
    confirm  whose y_v arrived            → a signature on their list
    unmask   t such signatures            → shares of b_v of those, of the mask key of those that are gone

Where clients have identities, keys are signed and lists confirmed; where they have none, in one process,
nothing is signed and `confirm` is not asked.
"""

import hashlib
import json
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from training.config import FrozenConfig
from training.messages.message import Message, Tensors
from training.privacy.secagg.fixed_point import Entry, Layout
from training.privacy.secagg.keys import NONCE_BYTES, TAG_BYTES, Signed, session_of
from training.privacy.secagg.shamir import SHARE_BYTES

SHARE, MASKED, CONFIRM, UNMASK = "share", "masked", "confirm", "unmask"
REQUESTS = (SHARE, MASKED, CONFIRM, UNMASK)
WITHHELD = "withheld/"  # before the names of what comes in place of tensors
KEYS, LAYOUT = WITHHELD + "keys", WITHHELD + "layout"
SIGNATURE = WITHHELD + "signature"  # of the keys, where the client has an identity
EARLIER = WITHHELD + "earlier"  # over whom the client let such a sum be unmasked before, where it has
SEALED, SELF_SHARES, KEY_SHARES = "sealed", "self_shares", "key_shares"
SEALED_BYTES = NONCE_BYTES + 2 * SHARE_BYTES + TAG_BYTES  # one share of each secret, sealed


class SumRequest(FrozenConfig):
    """The options that all three requests share.

    Attributes:
        of: the request that is summed.
        threshold: t, how many must answer; for the transport, which waits. A client works it out itself.
    """

    of: str
    threshold: int


class ShareRequest(SumRequest):
    """Round 1.

    Attributes:
        clients: those whose keys are sent along.
        signed: their signatures of these; None of a client without identity.
    """

    clients: tuple[str, ...]
    signed: tuple[Signed | None, ...] = ()


class MaskedRequest(SumRequest):
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


class ConfirmRequest(SumRequest):
    """Round 3. Attributes: `survivors`, whose masked numbers arrived."""

    survivors: tuple[int, ...]


class UnmaskRequest(ConfirmRequest):
    """Round 4. Attributes: `confirmed`, survivors' signatures of the list of survivors, by place."""

    confirmed: tuple[tuple[int, Signed], ...] = ()


def session_about(message: Message, of: str, asked: str, clients: tuple[str, ...], public: bytes) -> bytes:
    """What names the session of a sum: what is summed, of whom, and all public keys.

    Args:
        message: of any request of the sum.
        of: the request that is summed.
        asked: see `training.privacy.secagg.cohorts.Topic`.
        clients: in order.
        public: their keys, in this order.
    """
    about = f"{message.address[1:3]} {message.track} {of} {asked}"
    return session_of(about, list(clients), public)


def masks_about(session: bytes, request: MaskedRequest) -> bytes:
    """What pair masks are derived for: clients that are sent different sums do not cancel each other's."""
    sum_ = request.model_dump(mode="json", include={"present", "total_weight", "layout"})
    return hashlib.sha256(session + json.dumps(sum_, sort_keys=True).encode()).digest()


def keys_statement(message: Message, of: str, asked: str, public: bytes) -> dict[str, Any]:
    """What a client signs of its two public keys."""
    return {
        "keys": public.hex(),
        "stage": message.stage,
        "round": message.round,
        "track": message.track,
        "of": of,
        "asked": asked,
    }


def survivors_statement(session: bytes, survivors: tuple[int, ...]) -> dict[str, Any]:
    """What a client signs of who is in a sum."""
    return {"session": session.hex(), "survivors": list(survivors)}


def json_tensor(content: Any) -> Tensor:
    """JSON as it travels."""
    return bytes_tensor(json.dumps(content).encode())


def read_json(tensor: Tensor) -> Any:
    """What `json_tensor` made.

    Raises:
        ValueError: when it is none.
    """
    return json.loads(tensor_bytes_of(tensor))


def bytes_tensor(content: bytes) -> Tensor:
    """Bytes as they travel."""
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())


def rows_tensor(rows: list[bytes], width: int) -> Tensor:
    """Rows of equal width as they travel, `(rows, width)`."""
    return bytes_tensor(b"".join(rows)).reshape(len(rows), width)


def bytes_of_rows(tensor: Tensor) -> list[bytes]:
    """The rows that arrived, each by itself."""
    return [row.tobytes() for row in tensor.contiguous().numpy()]


def tensor_bytes_of(tensor: Tensor) -> bytes:
    """The bytes that arrived."""
    return tensor.contiguous().numpy().tobytes()


def layout_tensor(tensors: Tensors) -> Tensor:
    """The layout of a client's own tensors as it travels."""
    entries = [Entry.of(name, tensor).model_dump() for name, tensor in tensors.items()]
    return json_tensor(entries)


def read_layout(tensor: Tensor) -> Layout:
    """What `layout_tensor` made.

    Raises:
        ValueError: when it is none (pydantic's and json's errors are such).
    """
    return [Entry.model_validate(entry) for entry in read_json(tensor)]

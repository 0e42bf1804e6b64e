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

Cohorts: whose sum of which pictures a client has let be unmasked, so that no other sum of them ever is.

A coordinator that has the sum of {A, B, C} and that of {A, B} has the counts of C. So a client keeps in its
store, for all of a run, over whom each sum was that it gave its shares for, and takes part in a second one
over the same clients alone.

- Counts of the test and the calibration split, and sums over the training split: one cohort for the whole
  run, whatever stage asks, and all of it or nothing. The same pictures are asked about many times.
- Counts of the validation split: one for each round of a stage; its model is another in the next.
- Weights: one for each round, model and request.

The coordinator's own client is in no cohort: it hides no other, and may come and go.

A sum is unmasked when t clients have noted its cohort. Any other sum is then of clients that have not: it
lacks t of the first, and t is never below `fewest`. That holds of clients that keep to this, however the
coordinator asks.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from training.algorithms.client import Client, State
from training.config import FrozenConfig
from training.data.dataset import SERVER
from training.errors import MessageError
from training.messages import Broadcast, Message, Tensors, request_digest
from training.privacy.secagg.arithmetic import SHARE_BYTES, Entry, Layout
from training.privacy.secagg.keys import NONCE_BYTES, TAG_BYTES, Signed, session_of

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
        asked: see `training.privacy.secagg.messages.Topic`.
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


LEDGER = "sums"  # in a client's store; below no stage, so that nothing takes it back
ENTRIES = "entries"
BY_ROUND = "validation"  # the split of which the cohort may change from round to round


@dataclass(frozen=True)
class Topic:
    """What a sum is of.

    Attributes:
        name: sums of the same name are over the same clients.
        counts: whether pictures are counted, and not weights: all are asked the same, and count once.
        whole: whether it is of all that began it, or not at all.
        asked: a digest of the request where all are asked the same, else empty.
    """

    name: str
    counts: bool = False
    whole: bool = False
    asked: str = ""


def topic_of(request: Broadcast) -> Topic:
    """The topic of a request whose answers are summed."""
    split = request.options.get("split")
    if split is None:
        return Topic(f"{request.stage}/{request.track}/{request.ask}/{request.round}")
    asked = request_digest(request)
    if split == BY_ROUND:
        return Topic(f"{split}/{request.stage}/{request.round}", counts=True, asked=asked)
    return Topic(str(split), counts=True, whole=True, asked=asked)


def earlier(client: Client, topic: Topic) -> frozenset[str] | None:
    """Over whom the client let a sum of this topic be unmasked; None where it has not."""
    found = entries(client).get(topic.name)
    return None if found is None else frozenset(found)


def note(client: Client, topic: Topic, cohort: Sequence[str]) -> None:
    """Keep over whom a sum is about to be unmasked.

    Raises:
        MessageError: when an earlier one was over others.
    """
    refuse_others(client, topic, cohort)
    noted = entries(client)
    if topic.name not in noted:
        state = State({ENTRIES: json_tensor({**noted, topic.name: sorted(hospitals_of(cohort))})})
        client.store.save(client.id, LEDGER, 0, state)


def refuse_others(client: Client, topic: Topic, cohort: Sequence[str], *, may_leave: bool = False) -> None:
    """Refuse a sum over other clients than an earlier one of the same topic.

    Args:
        client: who is asked.
        topic: what is summed.
        cohort: over whom.
        may_leave: whether some of them may still leave before it is unmasked.

    Raises:
        MessageError: naming who is missing, who is new, and what to do.
    """
    before, now = earlier(client, topic), hospitals_of(cohort)
    if before is None or before == now or (may_leave and before < now):
        return
    raise MessageError(f"{client.id} takes no part in a second sum: {difference(topic, before, cohort)}")


def hospitals_of(cohort: Iterable[str]) -> frozenset[str]:
    """A cohort without the coordinator's own client."""
    return frozenset(cohort) - {SERVER}


def difference(topic: Topic, before: frozenset[str], cohort: Iterable[str]) -> str:
    """Why a sum over these may not follow one over those, and what to do."""
    now = hospitals_of(cohort)
    gone, new = sorted(before - now), sorted(now - before)
    changes = [f"without {', '.join(gone)}"] if gone else []
    changes += [f"with {', '.join(new)}"] if new else []
    advice = (
        f"Bring {', '.join(gone)} back and continue with --resume, or begin a new run"
        if gone
        else f"Ask {', '.join(sorted(before))} alone, or begin a new run"
    )
    return (
        f"the sum of `{topic.name}` over {', '.join(sorted(before))} was unmasked in this run, and the same "
        f"{' and '.join(changes)} would tell single hospitals' part by subtraction. {advice}"
    )


def entries(client: Client) -> Mapping[str, list[str]]:
    """All that the client has noted in this run, by topic."""
    state = client.store.load(client.id, LEDGER, 1)
    tensors: Tensors = state.tensors if state is not None else {}
    return read_json(tensors[ENTRIES]) if ENTRIES in tensors else {}

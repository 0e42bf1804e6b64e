"""What travels between the coordinator and a client, and what is checked when it arrives.

A `Broadcast` asks one client one request about one model ("track"); the client answers with an
`Update`, or the engine reports a `Failure`. Nothing else crosses between the two.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol

import torch

from training.errors import MessageError, may_pass, public

Tensors = Mapping[str, torch.Tensor]
Shapes = Mapping[str, torch.Size]

GLOBAL = "global"  # the track of the model that all clients train together


def tensor_bytes(tensors: Tensors) -> int:
    """Bytes of the tensors' values."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def named(tensors: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose name starts with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def prefixed(tensors: Tensors, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors under `prefix`."""
    return {prefix + name: value for name, value in tensors.items()}


@dataclass(frozen=True)
class Message:
    """What every message says of itself.

    Attributes:
        client: the client it is for or from.
        stage: the stage's key, e.g. `0-federate`.
        round: the round, from 1.
        ask: which of the stage's requests this is, e.g. `fit` or `evaluate`.
        track: which model it is about: `global` or a subgroup's name.
    """

    client: str
    stage: str
    round: int
    ask: str
    track: str = GLOBAL

    @property
    def address(self) -> tuple[str, str, int, str, str]:
        """What an answer must share with its request."""
        return (self.client, self.stage, self.round, self.ask, self.track)


@dataclass(frozen=True)
class Broadcast(Message):
    """One request to one client.

    Attributes:
        tensors: weights and whatever else the part that asks sends.
        options: further settings of the request, JSON-able; the client that answers validates them.
    """

    tensors: Tensors = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Update(Message):
    """One client's answer.

    Attributes:
        tensors: named tensors (weights, counts).
        num_examples: training pictures behind the answer, by subgroup.
        losses: mean training loss by subgroup, where the request was `fit`.
        scalars: further numbers.
    """

    tensors: Tensors = field(default_factory=dict)
    num_examples: Mapping[str, int] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A client that did not answer, and why."""

    client: str
    track: str
    reason: str

    @property
    def passes(self) -> bool:
        """Whether the client may be able to answer later, as where its disk is full."""
        return may_pass(self.reason)


Answer = Update | Failure


def reply(
    broadcast: Broadcast,
    *,
    tensors: Tensors | None = None,
    num_examples: Mapping[str, int] | None = None,
    losses: Mapping[str, float] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> Update:
    """The answer to `broadcast` that carries these."""
    return Update(*broadcast.address, tensors or {}, num_examples or {}, losses or {}, scalars or {})


def check_update(
    update: Update, broadcast: Broadcast, expected: Shapes | None = None, beside: str | None = None
) -> None:
    """Refuse an answer that is not one to `broadcast`, has other tensors than expected, or is not finite.

    Args:
        update: the answer.
        broadcast: the request.
        expected: names and shapes of the tensors that must be there, all floating-point; None allows any.
        beside: tensors whose name starts with it may be there too, of any shape.

    Raises:
        MessageError: naming the client, what was found and what is allowed.
    """
    if update.address != broadcast.address:
        raise MessageError(f"{broadcast.client} answered {update.address}; asked was {broadcast.address}")
    numbers = {**update.losses, **update.scalars}
    bad = {name: value for name, value in numbers.items() if not isfinite(value)}
    if bad:
        raise MessageError(f"{update.client} reports {bad}: not a finite number")
    if any(n < 0 for n in update.num_examples.values()):
        raise MessageError(
            f"{update.client} reports a negative number of pictures: {dict(update.num_examples)}"
        )
    if expected is not None:
        _check_tensors(update, expected, beside)


def check_trained(update: Update) -> None:
    """Refuse the update of a client that trained on nothing: it has no weight in any mean.

    Raises:
        MessageError: naming the client.
    """
    if not any(update.num_examples.values()):
        raise MessageError(f"{update.client} reports no pictures behind its update; expected at least one")


def _check_tensors(update: Update, expected: Shapes, beside: str | None) -> None:
    missing = sorted(expected.keys() - update.tensors.keys())
    extra = update.tensors.keys() - expected.keys()
    surplus = sorted(name for name in extra if beside is None or not name.startswith(beside))
    if missing or surplus:
        raise MessageError(
            f"{update.client} sent other tensors than asked for: missing {missing[:3]}, "
            f"unexpected {surplus[:3]}"
        )
    for name, tensor in update.tensors.items():
        if name in expected and tensor.shape != expected[name]:
            raise MessageError(
                f"{update.client} sent {name} as {tuple(tensor.shape)}; expected {tuple(expected[name])}"
            )
        if name in expected and not tensor.is_floating_point():
            raise MessageError(
                f"{update.client} sent {name} as {tensor.dtype}; expected a floating-point type"
            )
        if not all_finite(tensor):
            raise MessageError(
                f"{update.client} sent {name} with values that are not finite; it may have diverged"
            )
        if name.endswith("running_var") and bool((tensor < 0).any()):
            raise MessageError(
                f"{update.client} sent {name} with a variance of {tensor.min().item():g}, of which every "
                "answer of the model would be not a number; expected none below 0"
            )


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is infinite or NaN.

    A sum that is finite has only finite terms, and summing is ten times faster than looking at each value.
    The sum of finite values may itself overflow: then each is looked at.
    """
    return isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def unknown_request(broadcast: Broadcast) -> MessageError:
    """What a client says of a request that its stage does not know."""
    return public(
        MessageError(
            f"stage {broadcast.stage} knows no request `{broadcast.ask}`; "
            "do the coordinator and this site run the same version of dermfed?"
        )
    )


def request_digest(request: Broadcast) -> str:
    """The SHA-256 of all of a request but whom it is for: two are the same if their every byte is."""
    about = [request.stage, request.round, request.ask, request.track, dict(request.options)]
    found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, tensor in sorted(request.tensors.items()):
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode()
        found.update(len(head).to_bytes(8, "big") + head)
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


class Engine(Protocol):
    """Asks clients, wherever they are."""

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """One answer or failure to each request, in the order of the requests.

        The answers' tensors may be on disk and are valid until the next call.
        """

    def close(self) -> None:
        """End whatever the engine started."""

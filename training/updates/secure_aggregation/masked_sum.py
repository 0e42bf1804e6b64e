"""The secure sum of the tensors that clients withhold from their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from training.errors import MessageError
from training.messages.message import Failure, Update
from training.secure_random import KEY_BYTES
from training.updates.secure_aggregation.fixed_point import Entry, Layout
from training.updates.secure_aggregation.messages import KEYS, LAYOUT, read_layout, tensor_bytes_of
from training.updates.secure_aggregation.server import Ask, SecureSum, require_enough
from training.updates.settings import SecureAggregationConfig


@dataclass(frozen=True)
class MaskedSum:
    """What came of a secure sum.

    Attributes:
        tensors: Σ_c w_c v_c over `clients`.
        clients: whose values are in it.
        failures: those that left on the way, and why.
    """

    tensors: Mapping[str, Tensor]
    clients: Sequence[str]
    failures: Sequence[Failure]


def sum_withheld(
    ask: Ask,
    updates: Sequence[Update],
    config: SecureAggregationConfig,
    *,
    weights: Mapping[str, float] | None = None,
    layout: Layout | None = None,
) -> MaskedSum:
    """The sum of what clients withheld.

    Args:
        ask: puts questions to clients.
        updates: their answers to one question about one model, keys in place of tensors.
        config: the job's.
        weights: w_c; 1 for each when absent.
        layout: what is summed; when absent, all that any of them withholds.

    Raises:
        QuorumError: when too few are there or stay.
    """
    failures: list[Failure] = []
    held: dict[str, tuple[bytes, Layout]] = {}
    known = {entry.name: entry for entry in layout or ()}
    for update in updates:
        try:
            held[update.client] = read_withheld(update)
            for entry in held[update.client][1]:
                if layout is None:
                    bound = max(entry.bound, config.bound)
                    known.setdefault(entry.name, entry.model_copy(update={"bound": bound}))
                require_same(update.client, entry, known.get(entry.name))
            require_all(update.client, held[update.client][1], layout)
        except MessageError as error:
            held.pop(update.client, None)
            failures.append(Failure(update.client, update.track, str(error)))
    clients = list(held)
    about = updates[0]
    threshold = config.threshold(len(clients))
    summing = SecureSum(ask, about, clients, [held[name][0] for name in clients], threshold, failures)
    require_enough(summing.where, len(clients), threshold, failures)
    if not known:
        return MaskedSum({}, clients, failures)
    tensors = summing.run(list(known.values()), weights or dict.fromkeys(clients, 1.0))
    return MaskedSum(tensors, summing.clients, summing.failures)


def read_withheld(update: Update) -> tuple[bytes, Layout]:
    """A client's public keys, and what it withholds.

    Raises:
        MessageError: when the answer does not hold them.
    """
    if set(update.tensors) != {KEYS, LAYOUT}:
        raise MessageError(
            f"{update.client} sent {sorted(update.tensors)[:3]} in place of its keys; do the coordinator and "
            "this site run the same job with privacy.secure_aggregation?"
        )
    try:
        keys, layout = tensor_bytes_of(update.tensors[KEYS]), read_layout(update.tensors[LAYOUT])
    except ValueError as error:
        raise MessageError(f"{update.client} sent no list of what it withholds: {error}") from error
    if len(keys) != 2 * KEY_BYTES:
        raise MessageError(f"{update.client} sent {len(keys)} bytes of keys; expected {2 * KEY_BYTES}")
    return keys, layout


def require_same(client: str, entry: Entry, expected: Entry | None) -> None:
    """Refuse a tensor of other shape or type than the others'.

    Raises:
        MessageError: naming the client.
    """
    if expected is None or (entry.shape, entry.dtype) != (expected.shape, expected.dtype):
        wanted = "nothing" if expected is None else f"{expected.dtype} {expected.shape}"
        raise MessageError(
            f"{client} withholds {entry.name} as {entry.dtype} {entry.shape}; expected {wanted}"
        )


def require_all(client: str, own: Layout, layout: Layout | None) -> None:
    """Refuse a client that withholds less than what is summed.

    Raises:
        MessageError: naming what is missing.
    """
    missing = {entry.name for entry in layout or ()} - {entry.name for entry in own}
    if missing:
        raise MessageError(f"{client} withholds nothing for {sorted(missing)[:3]}; expected all of the model")

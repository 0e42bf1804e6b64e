"""Sums of clients' tensors under masks: of weights, weighted, and of answers; no single client's is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.algorithms.aggregators.base import AggregationWeights
from training.errors import MessageError, QuorumError
from training.messages import GLOBAL, Broadcast, Failure, Tensors, Update, check_update
from training.privacy.secagg.arithmetic import Entry, Layout, power_of_two
from training.privacy.secagg.keys import Signed
from training.privacy.secagg.messages import (
    EARLIER,
    KEYS,
    LAYOUT,
    SIGNATURE,
    Topic,
    difference,
    hospitals_of,
    read_json,
    read_layout,
    tensor_bytes_of,
    topic_of,
)
from training.privacy.secagg.server import Ask, SecureSum, require_enough
from training.privacy.settings import SecureAggregationConfig
from training.randomness import KEY_BYTES


class CohortError(QuorumError):
    """A sum of the same was unmasked before, over others than are there now."""


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


def sum_masked_updates(
    ask: Ask,
    updates: Sequence[Update],
    config: SecureAggregationConfig,
    *,
    weights: Mapping[str, float] | None = None,
    layout: Layout | None = None,
    topic: Topic | None = None,
) -> MaskedSum:
    """The sum of what clients withheld.

    Who let such a sum be unmasked before, in a run that is taken up again, says over whom: this one is over
    the same clients.

    Args:
        ask: puts requests to clients.
        updates: their answers to one request about one model, keys in place of tensors.
        config: the job's.
        weights: w_c; 1 for each when absent.
        layout: what is summed; when absent, all that any of them withholds.
        topic: of the request, where it counts pictures.

    Raises:
        QuorumError: when too few are there or stay.
        CohortError: when an earlier sum was over others than are there now.
    """
    failures: list[Failure] = []
    held: dict[str, MaskedUpdate] = {}
    known = {entry.name: entry for entry in layout or ()}
    for update in updates:
        try:
            held[update.client] = read_masked_update(update)
            for entry in held[update.client].layout:
                if layout is None:
                    bound = max(entry.bound, config.bound)
                    known.setdefault(entry.name, entry.model_copy(update={"bound": bound}))
                require_same(update.client, entry, known.get(entry.name))
            require_all(update.client, held[update.client].layout, layout)
        except MessageError as error:
            held.pop(update.client, None)
            failures.append(Failure(update.client, update.track, str(error)))
    about, topic = updates[0], topic or Topic(updates[0].ask)
    clients = same_cohort(topic, held, failures)
    if topic.whole and failures:
        reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in failures)
        raise QuorumError(
            f"`{about.ask}` of {about.stage} is summed over all clients or not at all. {reasons}"
        )
    threshold = config.threshold(len(clients))
    summing = SecureSum(
        ask,
        about,
        clients,
        [held[name].keys for name in clients],
        threshold,
        failures,
        signed=[held[name].signed for name in clients],
        asked=topic.asked,
        whole=topic.whole,
    )
    require_enough(summing.where, len(clients), threshold, failures)
    if not known:
        return MaskedSum({}, clients, failures)
    tensors = summing.run(list(known.values()), weights or dict.fromkeys(clients, 1.0))
    return MaskedSum(tensors, summing.clients, summing.failures)


@dataclass(frozen=True)
class MaskedUpdate:
    """What a client sent in place of its tensors.

    Attributes:
        keys: its two public keys.
        layout: what it withholds.
        signed: its signature of the keys, where it has an identity.
        earlier: over whom it let such a sum be unmasked before; None where it has not.
    """

    keys: bytes
    layout: Layout
    signed: Signed | None = None
    earlier: frozenset[str] | None = None


def read_masked_update(update: Update) -> MaskedUpdate:
    """What a client sent in place of its tensors.

    Raises:
        MessageError: when the answer does not hold it.
    """
    sent = update.tensors
    if not {KEYS, LAYOUT} <= set(sent) <= {KEYS, LAYOUT, SIGNATURE, EARLIER}:
        raise MessageError(
            f"{update.client} sent {sorted(sent)[:3]} in place of its keys; do the coordinator and "
            "this site run the same job, with the same privacy block?"
        )
    try:
        found = MaskedUpdate(
            tensor_bytes_of(sent[KEYS]),
            read_layout(sent[LAYOUT]),
            Signed.model_validate(read_json(sent[SIGNATURE])) if SIGNATURE in sent else None,
            frozenset(map(str, read_json(sent[EARLIER]))) if EARLIER in sent else None,
        )
    except (TypeError, ValueError) as error:
        raise MessageError(f"{update.client} sent no list of what it withholds: {error}") from error
    if len(found.keys) != 2 * KEY_BYTES:
        raise MessageError(f"{update.client} sent {len(found.keys)} bytes of keys; expected {2 * KEY_BYTES}")
    return found


def same_cohort(topic: Topic, held: Mapping[str, MaskedUpdate], failures: list[Failure]) -> list[str]:
    """Those that a sum may be over: all, or those of an earlier sum; others are noted as failures.

    Raises:
        CohortError: when one of an earlier sum is not there.
    """
    before = {name: each.earlier for name, each in held.items() if each.earlier is not None}
    for earlier in dict.fromkeys(before.values()):
        if not earlier <= held.keys() or len(set(before.values())) > 1:
            reasons = "".join(f"; {failure.client}: {failure.reason}" for failure in failures)
            raise CohortError(f"{difference(topic, earlier, held)}{reasons}")
        extra = hospitals_of(held) - earlier
        failures += [Failure(name, GLOBAL, difference(topic, earlier, held)) for name in sorted(extra)]
        return [name for name in held if name not in extra]
    return list(held)


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


HEADROOM = 4  # a tensor may grow by so much within a round before it can no longer be summed
EVERYBODY = "all clients"  # whose answer a sum is


def mix_masked(
    ask: Ask,
    aggregation: AggregationWeights,
    updates: Sequence[Update],
    previous: Tensors,
    names: Sequence[str],
    config: SecureAggregationConfig,
) -> tuple[AggregationWeights, dict[str, torch.Tensor], MaskedSum]:
    """θ ← Σ_c w_c θ_c + w_previous θ^t for the named tensors, as `mix` has it, under masks.

    Where clients leave on the way, the weights of those that stay are scaled up to the sum of all:
    w_c ← w_c Σ_i w_i / Σ_{i stays} w_i, which under FedAvg is what it gives those that stay.

    Returns:
        The mixture as it became, the tensors, and the sum itself.

    Raises:
        QuorumError: when too few are there or stay.
    """
    layout = [Entry.of(name, previous[name], bound_of(previous[name], config)) for name in names]
    if not layout:  # nothing travels
        return aggregation, dict(previous), MaskedSum({}, [update.client for update in updates], [])
    summed = sum_masked_updates(ask, updates, config, weights=aggregation.clients, layout=layout)
    stayed = sum(aggregation.clients[name] for name in summed.clients)
    left = len(summed.clients) < len(aggregation.clients)
    scale = sum(aggregation.clients.values()) / stayed if left and stayed else 1.0
    weights = {name: aggregation.clients[name] * scale for name in summed.clients}
    total = {
        name: (summed.tensors[name] * scale + aggregation.previous * previous[name].double()).to(
            previous[name].dtype
        )
        for name in names
    }
    return replace(aggregation, clients=weights), {**previous, **total}, summed


def bound_of(tensor: torch.Tensor, config: SecureAggregationConfig) -> float:
    """B of a tensor of which the round begins with this."""
    return power_of_two(max(config.bound, HEADROOM * float(tensor.abs().max()) if tensor.numel() else 0.0))


def tolerance(
    clients: int, config: SecureAggregationConfig, largest: float = 0.0, stayed: float = 1.0
) -> float:
    """By how much a weight under masks may differ from the exact sum, for weights w_c that add up to 1.

    Args:
        clients: n, those in the sum.
        config: the job's.
        largest: the largest absolute value of a tensor at the round's beginning.
        stayed: Σ w_c of those that are in the sum; it is scaled up by as much as is missing.
    """
    bound = power_of_two(max(config.bound, HEADROOM * largest))
    return clients * bound * 2.0**-31 / stayed


def sum_answers(
    ask: Ask, broadcasts: Sequence[Broadcast], config: SecureAggregationConfig
) -> tuple[list[Update], list[Failure]]:
    """Answers of which only the sum is wanted: one update for each model, and the clients that are not in it.

    Raises:
        QuorumError: when too few are there or stay, or one of those that are all needed does not.
        CohortError: when an earlier sum was over others than are there now.
    """
    kept: dict[str, list[Update]] = {}
    topics = {broadcast.track: broadcast for broadcast in broadcasts}
    failures: list[Failure] = []
    for broadcast, answer in zip(broadcasts, ask(broadcasts), strict=True):
        if isinstance(answer, Failure):
            failures.append(answer)
            continue
        try:
            check_update(answer, broadcast)
        except MessageError as error:
            failures.append(Failure(broadcast.client, broadcast.track, str(error)))
        else:
            own = replace(answer, tensors=dict(answer.tensors.items()))  # they end with the next call
            kept.setdefault(broadcast.track, []).append(own)
    sums = []
    for track, updates in kept.items():
        topic = topic_of(topics[track])
        if topic.whole and failures:
            break
        summed = sum_masked_updates(ask, updates, config, topic=topic)
        failures.extend(summed.failures)
        sums.append(as_update(summed, updates))
    return sums, failures


def as_update(summed: MaskedSum, updates: Sequence[Update]) -> Update:
    """A sum as the answer of all clients together; pictures behind it are added up too."""
    examples: dict[str, int] = {}
    for update in updates:
        if update.client in summed.clients:
            for name, count in update.num_examples.items():
                examples[name] = examples.get(name, 0) + count
    return replace(
        updates[0], client=EVERYBODY, tensors=summed.tensors, num_examples=examples, losses={}, scalars={}
    )

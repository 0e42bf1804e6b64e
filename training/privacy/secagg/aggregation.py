"""Aggregation under masks: weighted sums of clients' tensors, of which no single client's is ever read."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from training.algorithms.aggregators.base import Mixture
from training.errors import MessageError
from training.messages.message import Broadcast, Failure, Tensors, Update, check_update
from training.privacy.secagg.cohorts import topic_of
from training.privacy.secagg.fixed_point import Entry, power_of_two
from training.privacy.secagg.masked_sum import MaskedSum, sum_withheld
from training.privacy.secagg.server import Ask
from training.privacy.settings import SecureAggregationConfig

HEADROOM = 4  # a tensor may grow by so much within a round before it can no longer be summed
EVERYBODY = "all clients"  # whose answer a sum is


def mix_masked(
    ask: Ask,
    mixture: Mixture,
    updates: Sequence[Update],
    previous: Tensors,
    names: Sequence[str],
    config: SecureAggregationConfig,
) -> tuple[Mixture, dict[str, torch.Tensor], MaskedSum]:
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
        return mixture, dict(previous), MaskedSum({}, [update.client for update in updates], [])
    summed = sum_withheld(ask, updates, config, weights=mixture.clients, layout=layout)
    stayed = sum(mixture.clients[name] for name in summed.clients)
    left = len(summed.clients) < len(mixture.clients)
    scale = sum(mixture.clients.values()) / stayed if left and stayed else 1.0
    weights = {name: mixture.clients[name] * scale for name in summed.clients}
    total = {
        name: (summed.tensors[name] * scale + mixture.previous * previous[name].double()).to(
            previous[name].dtype
        )
        for name in names
    }
    return replace(mixture, clients=weights), {**previous, **total}, summed


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
        summed = sum_withheld(ask, updates, config, topic=topic)
        failures.extend(summed.failures)
        sums.append(as_update(summed, updates))
    return sums, failures


def as_update(summed: MaskedSum, updates: Sequence[Update]) -> Update:
    """A sum as the answer of everybody together; pictures behind it are added up too."""
    examples: dict[str, int] = {}
    for update in updates:
        if update.client in summed.clients:
            for name, count in update.num_examples.items():
                examples[name] = examples.get(name, 0) + count
    return replace(
        updates[0], client=EVERYBODY, tensors=summed.tensors, num_examples=examples, losses={}, scalars={}
    )

"""The request `test`: test figures of finished models, each picture answered as the service would.

A subgroup's pictures go to the subgroup's own model where there is one, all others to the global model.
"""

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

from registry.bundle.labels import Label
from registry.bundle.metrics.summary import over_clients
from training.algorithms.client import Client
from training.data.dataset import FOLDED_CLASSES
from training.jobs.stages.base import StageContext
from training.messages import GLOBAL, Broadcast, Tensors, Update
from training.rounds.census import CensusBounds
from training.rounds.client.evaluate import evaluate
from training.rounds.requests import TEST, Blocks, EvaluateRequest, add_blocks, unpack_blocks
from training.rounds.server.ask import Traffic, ask_all, ask_sums, refuse_sum

FOLDED_LABELS = (
    Label(code="benign", name="Benign", malignancy="benign"),
    Label(code="malignant", name="Malignant", malignancy="malignant"),
)
assert tuple(label.code for label in FOLDED_LABELS) == FOLDED_CLASSES


def routes(context: StageContext, models: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Which subgroups' pictures each model answers."""
    own = {name: (name,) for name in models if name != GLOBAL}
    return {**own, GLOBAL: tuple(name for name in context.all_subgroups if name not in own)}


def figures_on_test(context: StageContext, models: Mapping[str, Tensors], traffic: Traffic) -> Blocks:
    """Counts on the test split by subgroup.

    Raises:
        QuorumError: when a client that holds test pictures does not answer.
    """
    return add_blocks(figures_by_client(context, models, traffic).values())


def figures_by_client(
    context: StageContext, models: Mapping[str, Tensors], traffic: Traffic, ask: str = TEST
) -> dict[str, Blocks]:
    """As `figures_on_test`, by client; of all clients together where counts are summed under masks.

    `ask` is the request, whose answers are counts of test pictures.

    Raises:
        MessageError: counts of more pictures than there are.
    """
    if not context.tests:
        return {}
    requests = [
        (model, final_request(context, subgroups), context.judges("test", subgroups))
        for model, subgroups in routes(context, models).items()
    ]
    broadcasts = [
        Broadcast(client, context.key, 0, ask, model, models[model], request)
        for model, request, clients in requests
        for client in clients
    ]
    if not broadcasts:
        return {}
    masks = context.job.privacy.masked_counts
    if masks is None:
        updates = ask_all(context.engine, broadcasts, traffic, quorum=context.quorum)
    else:
        updates = ask_sums(context.engine, broadcasts, traffic, masks, context.quorum)
    found: dict[str, Blocks] = {}
    for update in updates:
        found[update.client] = add_blocks([found.get(update.client, {}), unpack_blocks(update)])
    bounds = CensusBounds(context.census)
    if masks is not None:
        refuse_sum(add_blocks(found.values()), broadcasts, bounds)
    else:
        for client, blocks in found.items():
            bounds.refuse_counts(client, [client], "test", blocks)
    return found


def final_request(context: StageContext, subgroups: tuple[str, ...]) -> dict[str, Any]:
    """What is asked of finished models about test pictures of these subgroups, as options of a message."""
    return EvaluateRequest(
        split="test",
        subgroups=context.census.judged("test", subgroups),
        intersections=True,
    ).model_dump()


def figures_on_unseen(context: StageContext, weights: Tensors, traffic: Traffic) -> dict[str, Blocks]:
    """Counts of benign and malignant at each client that took no part in training, by subgroup.

    Raises:
        QuorumError: when such a client does not answer.
    """
    request = EvaluateRequest(
        split="test",
        subgroups=context.all_subgroups,
        folded=True,
    ).model_dump()
    broadcasts = [
        Broadcast(client, context.key, 0, TEST, GLOBAL, weights, request) for client in context.census.unseen
    ]
    updates = ask_all(context.engine, broadcasts, traffic, quorum=context.quorum) if broadcasts else []
    return {update.client: unpack_blocks(update) for update in updates}


def client_facts(context: StageContext, by_client: Mapping[str, Blocks]) -> dict[str, Any]:
    """The facts of a stage that judged models at each client: each one's figures, and means over them."""
    blocks = {client: reduce(add, found.values()) for client, found in by_client.items() if found}
    return over_clients(blocks, context.communities, [label.code for label in context.labels])


def answer_test(broadcast: Broadcast, client: Client) -> Update:
    """Counts of exactly the weights that arrived."""
    client.local_model.load(broadcast.tensors)
    return evaluate(broadcast, client)

"""The question `test`: figures of finished models, each picture answered as the service would.

A subgroup's pictures go to the subgroup's own model where there is one, all others to the global model.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from training.client import Client
from training.evaluation import Blocks, EvaluateQuestion, add_blocks, evaluate, unpack_blocks
from training.messages import GLOBAL, Broadcast, Tensors, Update
from training.polling import Traffic, ask_all

if TYPE_CHECKING:
    from training.stages.base import Setting

TEST = "test"


def routes(setting: "Setting", models: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Which subgroups' pictures each model answers."""
    own = {name: (name,) for name in models if name != GLOBAL}
    return {**own, GLOBAL: tuple(name for name in setting.places if name not in own)}


def figures_on_test(setting: "Setting", models: Mapping[str, Tensors], traffic: Traffic) -> Blocks:
    """Counts on the test split by subgroup, with bootstrap replicates.

    Raises:
        QuorumError: when a client that holds test pictures does not answer.
    """
    return ask_routed(setting, models, traffic, TEST, setting.job.evaluation.replicates)


def ask_routed(
    setting: "Setting", models: Mapping[str, Tensors], traffic: Traffic, ask: str, replicates: int
) -> Blocks:
    """Ask `ask` about the test pictures, each subgroup's of the model that answers for it."""
    broadcasts = [
        Broadcast(
            client,
            setting.key,
            0,
            ask,
            model,
            models[model],
            EvaluateQuestion(split="test", subgroups=subgroups, replicates=replicates).model_dump(),
        )
        for model, subgroups in routes(setting, models).items()
        for client in setting.census.holders("test", subgroups)
    ]
    if not broadcasts:
        return {}
    updates = ask_all(setting.engine, broadcasts, traffic)
    return add_blocks(unpack_blocks(update) for update in updates)


def answer_test(broadcast: Broadcast, client: Client) -> Update:
    """Counts of exactly the weights that arrived."""
    client.bench.load(broadcast.tensors)
    return evaluate(broadcast, client)

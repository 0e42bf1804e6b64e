"""The coordinator's half of a stage that trains on features: everybody makes them before the first round."""

from collections.abc import Iterable

import torch

from training.algorithms.client import weights_digest
from training.jobs.stages.base import StageContext
from training.messages.message import GLOBAL, Broadcast, Tensors
from training.models.classifier import float_state
from training.rounds.client.embed import ENCODER
from training.rounds.requests import EMBED
from training.rounds.server.ask import Traffic, ask_all


def make_features(context: StageContext, weights: Tensors, traffic: Traffic) -> None:
    """Have every client make features of its pictures.

    Of the encoder only what is not as the job begins travels: every client has that.

    Raises:
        QuorumError: when a client cannot.
    """
    broadcasts = embedding_questions(context, weights, context.census.counts)
    context.metrics_log.log(f"{context.key}: {len(broadcasts)} clients make features of their pictures")
    ask_all(context.engine, broadcasts, traffic)


def embedding_questions(context: StageContext, weights: Tensors, clients: Iterable[str]) -> list[Broadcast]:
    """The question for features of all pictures, by the encoder of these weights, to each client."""
    head = set(context.model.head_names)
    initial = float_state(context.model)
    encoder = {name: weights[name] for name in initial if name not in head}
    changed = {name: tensor for name, tensor in encoder.items() if not torch.equal(tensor, initial[name])}
    tensors = changed if context.key.startswith("0-") else encoder
    options = {ENCODER: weights_digest(encoder)}
    return [Broadcast(client, context.key, 0, EMBED, GLOBAL, tensors, options) for client in clients]

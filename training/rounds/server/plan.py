"""The plan of a stage of rounds, and the server's state of each of its models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

import numpy as np

from training.algorithms.aggregators.base import Aggregator, ServerState
from training.algorithms.exchanges.base import EMPTY_CONTEXT, Exchange, ServerContext
from training.algorithms.objectives.base import Ask
from training.data.dataset import Split
from training.messages.message import Tensors
from training.privacy.compression import Compressor
from training.privacy.settings import CompressionConfig, SecureAggregationConfig
from training.randomness import generator
from training.rounds.census import CensusBounds

Draw = Literal["uniform", "by-size"]


@dataclass(frozen=True)
class Track:
    """One of the models that a stage trains side by side: who trains it, and who evaluates it.

    Attributes:
        name: `global`, or the subgroup whose model it is.
        trainers: the clients that may train it, in order.
        judges: the clients that evaluate it, in order.
        subgroups: the subgroups on which it is evaluated.
        always: the trainers that are asked in every round, whatever the participation.
        sizes: how many training pictures each trainer holds.
    """

    name: str
    trainers: tuple[str, ...]
    judges: tuple[str, ...]
    subgroups: tuple[str, ...]
    always: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What stays the same through all rounds of a stage.

    Attributes:
        stage: the stage's key.
        rounds: how many.
        tracks: the models.
        shared, local: the names of the weights that are sent, and of those that stay at their client.
        participation: the share of a track's trainers asked each round.
        draw: whether each is as likely to be asked, or likely as it has pictures (FedVC).
        min_clients: answers that a track needs each round; None demands all that were asked.
        average_at_end: whether local weights are averaged once, after the last round.
        split: on what to evaluate after each round; None leaves it out.
        seed: the job's.
        prepare: makes the objective's shared state, which every client gets before its first round.
        server_context: what the exchange may call at the coordinator.
        masks: how weights are summed under masks; None where clients send them in the clear.
        masked_counts: the same of counts.
        compressor: in what form weights are sent.
        update_limit: how far an update may go, see `training.rounds.server.validation`; None for no
            limit.
        dismissed: clients that are asked no more, and since when.
        evaluated: the rounds after which the models are evaluated; None for all.
        bounds: what reports may say at most, by the census; None without a census.
        canary: whether two batches are tried at every client before the first round.
    """

    stage: str
    rounds: int
    tracks: tuple[Track, ...]
    shared: tuple[str, ...]
    local: tuple[str, ...]
    exchange: Exchange
    aggregator: Aggregator
    participation: float
    min_clients: int | None
    average_at_end: bool
    split: Split | None
    seed: int
    prepare: Callable[[Ask, int], Tensors] | None = None
    draw: Draw = "uniform"
    server_context: ServerContext = EMPTY_CONTEXT
    masks: SecureAggregationConfig | None = None
    masked_counts: SecureAggregationConfig | None = None
    compressor: Compressor = field(default_factory=lambda: Compressor(CompressionConfig()))
    update_limit: float | None = None
    bounds: CensusBounds | None = None
    dismissed: Mapping[str, str] = field(default_factory=dict)
    canary: bool = False
    evaluated: frozenset[int] | None = None

    def cohort_size(self, track: Track) -> int:
        """How many clients train a model in a round."""
        drawn = len(track.trainers) - len(track.always)
        return len(track.always) + (max(1, ceil(self.participation * drawn - 1e-9)) if drawn else 0)

    def evaluates(self, round_: int) -> bool:
        """Whether the models of a round are evaluated; those of round 0, before the first, always are."""
        return self.split is not None and (self.evaluated is None or round_ in self.evaluated | {0})


@dataclass(frozen=True)
class TrackState:
    """The server's state of one model after a round.

    Attributes:
        weights: the model's floating-point state.
        server: what the aggregator remembers.
        memory: what the exchange remembers.
        shared_state: what the objective prepared; a client that trains for the first time gets it.
        participants: the clients that have trained it so far; they keep what does not travel.
    """

    weights: Tensors
    server: ServerState
    memory: Tensors = field(default_factory=dict)
    participants: frozenset[str] = frozenset()
    shared_state: Tensors = field(default_factory=dict)


States = dict[str, TrackState]


def choose_cohort(track: Track, plan: Plan, round_: int) -> tuple[str, ...]:
    """The clients asked this round, in client order, drawn without replacement; some are always asked."""
    drawn = [client for client in track.trainers if client not in track.always]
    size = plan.cohort_size(track) - len(track.always)
    if size == len(drawn):
        return track.trainers
    random = generator(plan.seed, plan.stage, track.name, round_, "cohort")
    odds = None
    if plan.draw == "by-size":
        held = np.array([track.sizes[client] for client in drawn], dtype=np.float64)
        odds = held / held.sum()
    places = random.choice(len(drawn), size=size, replace=False, p=odds)
    asked = {drawn[place] for place in places} | set(track.always)
    return tuple(client for client in track.trainers if client in asked)


def weights_for(plan: Plan, state: TrackState, client: str) -> Tensors:
    """What travels; a client that has not trained this model yet also gets what will stay with it."""
    if not plan.local or client not in state.participants:
        return state.weights
    return {name: state.weights[name] for name in plan.shared}

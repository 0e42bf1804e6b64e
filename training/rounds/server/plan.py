"""The plan of a stage of rounds, and the server's state of each of its models.

What an exchange may call at the coordinator: the store of uploads, and a judge of models.

A checkpoint says of which round each client's newest upload is; the file itself is written once and not again
with every checkpoint. The client's previous upload stays, too, which the last checkpoint may still name:
two files of the model's size per client at most, and nothing of them in memory until it is read.

Models are judged by their predictions on noise, and by their accuracy on pictures of the coordinator.
"""

import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from training.algorithms.aggregators.base import Aggregator, ServerState
from training.algorithms.exchanges.base import EMPTY_CONTEXT, Exchange, ServerContext
from training.algorithms.objectives.base import Ask
from training.data.dataset import Split
from training.errors import CheckpointError
from training.messages import GLOBAL, Broadcast, Engine, Failure, Tensors, check_update
from training.models import Classifier
from training.models.classifier import float_state
from training.privacy.compression import Compressor
from training.privacy.settings import CompressionConfig, SecureAggregationConfig
from training.randomness import generator
from training.rounds.census import CensusBounds
from training.rounds.requests import JUDGE, EvaluateRequest, unpack_blocks
from training.tensor_file import read_tensors, write_tensors

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


class UploadStore:
    """Keeps each client's newest upload and the one before it, in a folder.

    Args:
        folder: made when something is first put there.
        job: the job's digest; uploads to another job are refused.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job

    def put(self, client: str, round_: int, tensors: Tensors, previous: int | None) -> None:
        """Keep what `client` uploaded in a round, and of its others that of round `previous` alone.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        path = self._path(client, round_)
        write_tensors(path, self._job, {"client": client, "round": round_}, tensors)
        named = {path} if previous is None else {path, self._path(client, previous)}
        for old in set(path.parent.glob("*.safetensors")) - named:
            old.unlink()

    def get(self, client: str, round_: int) -> Tensors:
        """What `client` uploaded in a round.

        Raises:
            CheckpointError: when it is not there, damaged, or of another job.
        """
        path = self._path(client, round_)
        if not path.exists():
            raise CheckpointError(
                f"{path} is missing: what {client} uploaded in round {round_}, from which others learn; "
                "restore it, or start the run anew"
            )
        _, tensors = read_tensors(path, self._job, "restore it, or start the run anew")
        return tensors

    def clear(self) -> None:
        """Forget all uploads."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, client: str, round_: int) -> Path:
        return self._folder / quote(client, safe="") / f"round-{round_:06d}.safetensors"


class NoiseProbe:
    """Predicts pictures of noise, the same for all models, so that models can be compared by function.

    Args:
        model: of the job; what does not travel of it stays as it is there.
        image_size: pixels, both sides.
        seed: from which the pictures are drawn.
    """

    def __init__(self, model: Classifier, image_size: int, seed: int) -> None:
        self._source = model
        self._size = image_size
        self._seed = seed

    @cached_property
    def _model(self) -> Classifier:
        return deepcopy(self._source).eval()

    def predict(self, weights: Tensors, pictures: int) -> Tensor:
        """Probabilities `(pictures, classes)`, float64."""
        random = torch.Generator().manual_seed(self._seed)
        noise = torch.rand(pictures, 3, self._size, self._size, generator=random)
        state = float_state(self._model)
        with torch.no_grad():
            for name, tensor in weights.items():
                state[name].copy_(tensor)
            return torch.softmax(self._model(noise).double(), dim=1)


def validation_accuracy(
    engine: Engine, server: str, stage: str, subgroups: tuple[str, ...], weights: Tensors
) -> float | None:
    """The accuracy of a model on the validation pictures of the client `server`, which the coordinator owns.

    None where the model's answers cannot be counted, as those of weights that overflow.
    """
    request = EvaluateRequest(split="validation", subgroups=subgroups).model_dump()
    broadcast = Broadcast(server, stage, 0, JUDGE, GLOBAL, weights, request)
    (answer,) = engine.run_round([broadcast])
    if isinstance(answer, Failure):
        return None
    check_update(answer, broadcast)
    blocks = unpack_blocks(answer)
    pictures = sum(int(block.point.n) for block in blocks.values())
    if not pictures:
        return None
    right = sum(int(block.point.confusion.trace()) for block in blocks.values())
    return right / pictures

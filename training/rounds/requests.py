"""The requests that server and clients both know: names, options, prefixes of tensors, and blocks of counts.

`fit` trains, `evaluate` counts a model's predictions by subgroup; never a prediction is sent.

A canary before the first round: each client trains two batches, and nothing of it stays or leaves.

A long run over a network begins with it, so that a batch that is too large for a hospital's memory or a
broken driver shows in a minute and not in the middle of the night. The request carries what the first `fit`
will carry and is answered on its way, with the first batches that `fit` would draw; then it ends, before
anything is sent, kept or counted. Every draw follows from the seed and the round, so that the first round is
the same with and without it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from registry.bundle.counting import Block
from registry.bundle.counts import Thresholds
from registry.bundle.errors import CountsError
from training.algorithms.client import Client, State, StateStore
from training.config import FrozenConfig
from training.data.dataset import Split
from training.errors import DataError, MessageError, QuorumError, TrainingError, public, public_message
from training.messages import Broadcast, Engine, Failure, Tensors, Update, reply

JUDGE = "judge"  # the request to the server of how good an upload is

OPEN = "open"

SHARED_STATE = (
    "given/"  # on the wire and in a client's store, before the names of what the objective prepared
)

FIT, EVALUATE, COLLECT, TEST = "fit", "evaluate", "collect", "test"

COMPARE = "compare"  # counts of answers that two models give differently

NEIGHBOURS = "neighbours"  # counts of answers by the client's own training pictures

EMBED = "embed"  # make features of all pictures, with an encoder that will not learn

MOMENTS = "moments"  # sums over what several encoders make of pictures, for their projection
GRAM = "gram"  # of answers, before a block's number, as is SUM
SPREAD, GRADIENT = "spread", "gradient"  # sums over what a head takes: of rows and squares, or its gradient
WEIGHT, BIAS = "weight", "bias"  # of a head, in a request, and of its gradient, in the answer
SUBGROUP = "subgroup"  # in their options, where they are over one alone
LOSS, MASS, SUM, SQUARES = "loss", "mass", "sum", "squares"  # of answers

IN_WORDS = {  # for who waits
    "census": "starting, and counting pictures",
    FIT: "training",
    EVALUATE: "evaluating",
    TEST: "testing",
    EMBED: "making features",
    MOMENTS: "summing features",
    GRADIENT: "fitting the head",
}


class FitRequest(FrozenConfig):
    """How to train.

    Attributes:
        cell_weights: what a picture of each cell counts, where the aggregator weighs cells.
    """

    cell_weights: Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}


EVALUATION_BATCH = 64  # pictures that are looked at together where nothing is learned

Blocks = dict[str, Block]


class EvaluateRequest(FrozenConfig):
    """What to count.

    Attributes:
        split: which pictures.
        subgroups: the subgroups to answer for, `undeclared` among them if wanted.
        one_per_lesion: count only the first picture of each lesion.
        folded: count benign and malignant in place of the job's classes, as an unseen client's labels do.
        thresholds: of the model, where what they do is to be counted too.
        intersections: also count confusion matrices of the parts of a subgroup that share a trait, where the
            job names any columns.
        patterns: names of patterns of cases. Each set of them is one more answer, about every case under one
            of the set that it has; see `training.data.cases`.
        left_out: parts of cases. Each is one more answer, after those about patterns, about all cases without
            it; see `training.data.cases`.
        pattern_thresholds: of the model, for cases of these patterns, in place of `thresholds`.
    """

    split: Split
    subgroups: tuple[str, ...]
    one_per_lesion: bool = False
    folded: bool = False
    intersections: bool = False
    thresholds: Thresholds | None = None
    patterns: tuple[tuple[str, ...], ...] = ()
    left_out: tuple[str, ...] = ()
    pattern_thresholds: Mapping[str, Thresholds] = {}


def pack_blocks(blocks: Mapping[str, Block]) -> dict[str, Tensor]:
    """Blocks as named tensors, `<array>/<subgroup>`."""
    return {
        f"{array}/{subgroup}": torch.from_numpy(values)
        for subgroup, block in blocks.items()
        for array, values in block.to_arrays().items()
    }


def read_blocks(tensors: Tensors) -> Blocks:
    """Blocks from the tensors that `pack_blocks` made.

    Raises:
        CountsError: when they are no counts.
    """
    arrays: dict[str, dict[str, NDArray[np.int32]]] = {}
    for name, tensor in tensors.items():
        array, _, subgroup = name.partition("/")
        arrays.setdefault(subgroup, {})[array] = tensor.numpy()
    return {subgroup: Block.from_arrays(block) for subgroup, block in arrays.items()}


def unpack_blocks(update: Update) -> Blocks:
    """The blocks of one answer, checked.

    Raises:
        MessageError: when they are not what `pack_blocks` makes.
    """
    try:
        return read_blocks(update.tensors)
    except CountsError as error:
        raise MessageError(f"{update.client} sent counts that do not add up: {error}") from error


def add_blocks(many: Iterable[Blocks]) -> Blocks:
    """Blocks added up over clients, by subgroup."""
    total: Blocks = {}
    for blocks in many:
        for subgroup, block in blocks.items():
            total[subgroup] = total[subgroup] + block if subgroup in total else block
    return total


RECEIVED, CHANGE = "received_loss/", "squared_change"


LOGGER = logging.getLogger("dermfed.canary")
CANARY = "canary"
STEPS = 2  # batches of each client


@dataclass(frozen=True)
class ReadOnlyStore:
    """A client's state store that can be read and discards what is saved; a `StateStore`."""

    store: StateStore

    def load(self, client: str, stage: str, round: int) -> State | None:
        """As the store itself."""
        return self.store.load(client, stage, round)

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Nothing is kept."""


def answer_canary(
    request: Broadcast, client: Client, answer: Callable[[Broadcast, Client], Update], fit: str
) -> Update:
    """The client's half: an empty answer where two batches could be trained.

    Args:
        request: with what the first `fit` would carry.
        client: who is asked.
        answer: the stage's.
        fit: the name of the request that trains.

    Raises:
        TrainingError: when they could not, and why.
    """
    try:
        answer(replace(request, ask=fit), replace(client, steps=STEPS, store=ReadOnlyStore(client.store)))
    except TrainingError:
        raise
    except Exception as error:  # whatever it is, to find it is what this is for
        LOGGER.warning("the canary found an error", exc_info=error)
        raise public(DataError(f"{client.id} cannot train: {public_message(error)}")) from error
    return reply(request)


def send_canary(
    requests: Sequence[Broadcast], engine: Engine, min_clients: int | None, log: Callable[[str], None]
) -> None:
    """The coordinator's half: ask every client that trains, and name those that cannot.

    What it moves is in no round's bytes.

    Args:
        requests: of the first round, of all models.
        engine: takes them there.
        min_clients: how many must be fit for each model; all where it is None.
        log: takes one log line.

    Raises:
        QuorumError: too few can train.
    """
    answers = engine.run_round([replace(request, ask=CANARY) for request in requests])
    unfit = [answer for answer in answers if isinstance(answer, Failure)]
    reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in unfit)
    for track in dict.fromkeys(request.track for request in requests):
        asked = sum(request.track == track for request in requests)
        fit = asked - sum(failure.track == track for failure in unfit)
        needed = asked if min_clients is None else min(min_clients, asked)
        if fit < max(needed, 1):
            raise QuorumError(
                f"the canary before round 1 of {requests[0].stage} ({track}) had every client train {STEPS} "
                f"batches: {fit} of {asked} can, {needed} are needed (engine.min_clients). {reasons}. Mend "
                "what they report, e.g. with a smaller batch_size, and continue with --resume; lower "
                "engine.min_clients; or begin without this look (engine.network.canary: false)"
            )
    text = f"{requests[0].stage} canary: {STEPS} batches at {len(requests) - len(unfit)} of {len(requests)}"
    log(f"{text}; cannot train: {reasons}" if unfit else text)

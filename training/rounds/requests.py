"""The requests that server and clients both know: names, options, prefixes of tensors, and blocks of counts.

`fit` trains, `evaluate` counts a model's predictions by subgroup; never a prediction is sent.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from registry.bundle.counts.counting import Block
from registry.bundle.counts.counts import Thresholds
from registry.bundle.errors import CountsError
from training.config import FrozenConfig
from training.data.dataset import Split
from training.errors import MessageError
from training.messages.message import Tensors, Update

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

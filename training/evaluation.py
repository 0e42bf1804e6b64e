"""The question `evaluate`: counts of a model's predictions by subgroup, never a prediction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from registry.bundle.block import Block
from registry.bundle.counts import count
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label, malignant_classes
from training.client import Client
from training.config import FrozenConfig
from training.data import Examples, Split, traits_of
from training.disclosure import parts_to_tell
from training.errors import MessageError
from training.messages import Broadcast, Tensors, Update, reply
from training.pictures import to_model_input
from training.seeds import derive_seed
from training.workbench import Workbench

EVALUATION_BATCH = 256
Blocks = dict[str, Block]


class EvaluateQuestion(FrozenConfig):
    """What to count.

    Attributes:
        split: which pictures.
        subgroups: the subgroups to answer for, `undeclared` among them if wanted.
        replicates: how many bootstrap replicates, drawn by lesion.
        one_per_lesion: count only the first picture of each lesion.
        folded: count benign and malignant in place of the job's classes, as an unseen client's labels do.
        intersections: also tell confusion matrices of the parts of a subgroup that share a trait, where the
            job names any columns.
    """

    split: Split
    subgroups: tuple[str, ...]
    replicates: int = Field(0, ge=0)
    one_per_lesion: bool = False
    folded: bool = False
    intersections: bool = False


def predict(bench: Workbench, examples: Examples) -> NDArray[np.float32]:
    """Softmax probabilities `(n, classes)` of the workbench's model."""
    bench.model.eval()
    outputs: list[Tensor] = []
    with torch.inference_mode(), bench.autocast():
        for start in range(0, len(examples), EVALUATION_BATCH):
            positions = np.arange(start, min(start + EVALUATION_BATCH, len(examples)))
            logits = bench.model(to_model_input(examples.batch(positions), bench.device))
            outputs.append(torch.softmax(logits.float(), dim=1).cpu())
    probabilities: NDArray[np.float32] = torch.cat(outputs).numpy()
    return probabilities


def evaluate(broadcast: Broadcast, client: Client) -> Update:
    """Answer an `EvaluateQuestion` with the model in the client's workbench."""
    question = EvaluateQuestion.model_validate(broadcast.options)
    parts = sendable(client, question)
    return reply_blocks(
        broadcast,
        client,
        parts,
        {name: predict(client.bench, part) for name, part in parts.items()},
        question,
    )


def sendable(client: Client, question: EvaluateQuestion) -> dict[str, Examples]:
    """The labelled pictures of each wanted subgroup; one with fewer than the job's minimum is left out."""
    parts = {
        name: part.where(part.labels >= 0)
        for name, part in client.by_subgroup(question.split).items()
        if name in question.subgroups
    }
    if question.one_per_lesion:
        parts = {name: part.where(first_of_each(part.lesions)) for name, part in parts.items()}
    return {name: part for name, part in parts.items() if len(part) >= max(client.min_count, 1)}


def first_of_each(lesions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pictures `(n,)` are the first of their lesion."""
    first = np.zeros(len(lesions), dtype=np.bool_)
    first[np.unique(lesions, return_index=True)[1]] = True
    return first


def reply_blocks(
    broadcast: Broadcast,
    client: Client,
    parts: Mapping[str, Examples],
    probabilities: Mapping[str, NDArray[np.float32]],
    question: EvaluateQuestion,
) -> Update:
    """The answer that carries a block of counts for each part.

    Raises:
        MessageError: when the probabilities cannot be counted, as those of a model that has diverged.
    """
    traits = traits_of(client.dataset) if question.intersections else {}
    try:
        blocks = {
            name: count(
                labels=part.labels,
                lesions=part.lesions,
                replicates=question.replicates,
                seed=derive_seed(client.seed, "bootstrap", client.id, name),
                parts=parts_to_tell(part, traits, client.min_count),
                **predictions(probabilities[name], client.dataset.labels, folded=question.folded),
            )
            for name, part in parts.items()
        }
    except CountsError as error:
        raise MessageError(
            f"{client.id}: the model's answers are no probabilities: {error}. It may have diverged; "
            "lower objective.optimizer.lr"
        ) from error
    return reply(broadcast, tensors=pack_blocks(blocks))


def predictions(
    probabilities: NDArray[np.float32], labels: Sequence[Label], *, folded: bool
) -> dict[str, NDArray[Any]]:
    """What `count` is told of a model's answers: over the job's classes, or over benign and malignant.

    To fold, the class of highest probability gives the answer, and the probabilities of each side are
    summed, for calibration (Bdair et al. 2022, section 3.8). Premalignant classes count as malignant there.
    """
    if not folded:
        return {"probabilities": probabilities, "malignant": malignant_classes(labels)}
    side = np.array([label.malignancy in ("malignant", "premalignant") for label in labels], dtype=np.bool_)
    summed = np.stack([probabilities[:, ~side].sum(axis=1), probabilities[:, side].sum(axis=1)], axis=1)
    answers = side[probabilities.argmax(axis=1)].astype(np.int64)
    return {"probabilities": summed, "malignant": np.array([False, True]), "answers": answers}


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

"""A client's evaluation: predictions on one split, counted by subgroup; no prediction leaves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from registry.bundle.cases import CaseInput, pattern_of
from registry.bundle.conclusions import Tree
from registry.bundle.counts.counting import count
from registry.bundle.counts.counts import Thresholds, ThresholdsOfEach, Trait
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label, kind_of_each, malignant_classes
from training.algorithms.client import Client
from training.algorithms.local_model import LocalModel
from training.data.cells import count_people, unsuppressed
from training.data.dataset import DECLARED_TONE, Examples, case_of, traits_of
from training.data.folds import by_fold
from training.errors import MessageError
from training.federation.blocks import EVALUATION_BATCH, EvaluateQuestion, pack_blocks
from training.federation.client.release_ledger import ANSWERS, admit
from training.messages.message import Broadcast, Update, reply
from training.models.classifier import as_inputs


def predict(local_model: LocalModel, examples: Examples) -> NDArray[np.float32]:
    """Softmax probabilities `(n, classes)` of the local model."""
    local_model.model.eval()
    outputs: list[Tensor] = []
    with torch.inference_mode(), local_model.autocast():
        for start in range(0, len(examples), EVALUATION_BATCH):
            positions = np.arange(start, min(start + EVALUATION_BATCH, len(examples)))
            logits = local_model.model(as_inputs(examples, positions, local_model.device))
            outputs.append(torch.softmax(logits.float(), dim=1).cpu())
    probabilities: NDArray[np.float32] = torch.cat(outputs).numpy()
    return probabilities


def evaluate(broadcast: Broadcast, client: Client) -> Update:
    """Answer an `EvaluateQuestion` with the weights in the client's local model."""
    question = EvaluateQuestion.model_validate(broadcast.options)
    parts = sendable(client, question)
    return reply_blocks(
        broadcast,
        client,
        parts,
        {name: predict(client.local_model, part) for name, part in parts.items()},
        question,
    )


def as_they_are(examples: Examples) -> Examples:
    """The examples, whole."""
    return examples


def sendable(
    client: Client,
    question: EvaluateQuestion,
    view: Callable[[Examples], Examples] = as_they_are,
    *,
    in_folds: bool = False,
) -> dict[str, Examples]:
    """The labelled pictures of each wanted subgroup of which counts may leave, in a view of them.

    One with fewer than the job's minimum is left out, and what would tell few patients beside what was told
    before is held back. Where counts get noise neither is done: it would tell of the pictures. `in_folds`
    every fold of a subgroup is a part, and the account of releases holds each: models of a coordinator's own
    making could tell of one alone.
    """
    parts = {
        name: view(part.where(part.labels >= 0))
        for name, part in client.by_subgroup(question.split).items()
        if name in question.subgroups
    }
    if client.noisy:
        return parts
    if in_folds:
        parts = by_fold(parts)
    if question.one_per_lesion:
        parts = {name: one_of_each(part, client.min_count) for name, part in parts.items()}
    enough = {name: part for name, part in parts.items() if part.num_people >= max(client.min_count, 1)}
    return admit(client.releases, client.id, ANSWERS, enough, client.min_count)


def one_of_each(part: Examples, least: int) -> Examples:
    """One picture of each lesion; all, where fewer than `least` patients have more than one of a lesion.

    Counts of all pictures may have been told, or be asked for: the difference would tell these few.
    """
    first = first_of_each(part.lesions)
    return part if 0 < part.where(~first).num_people < least else part.where(first)


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
    labels, case = client.dataset.labels, case_of(client.dataset)
    tree, malignant = Tree(labels), malignant_classes(labels)
    blocks = {}
    try:
        for name, part in parts.items():
            thresholds = thresholds_of(question, part, case)
            blocks[name] = count(
                labels=part.labels,
                lesions=part.lesions,
                patients=part.people,
                smallest_cell=client.smallest_cell,
                thresholds=thresholds,
                parts=admitted_traits(
                    client, part, traits, [name for name in traits if name != DECLARED_TONE]
                ),
                concluded=tree.count(probabilities[name], part.labels, malignant, thresholds),
                **predictions(probabilities[name], labels, folded=question.folded),
            )
    except CountsError as error:
        raise MessageError(
            f"{client.id}: the model's answers are no probabilities: {error}. It may have diverged; "
            "lower objective.optimizer.lr"
        ) from error
    return reply(broadcast, tensors=pack_blocks(blocks))


def thresholds_of(
    question: EvaluateQuestion, part: Examples, case: CaseInput | None
) -> Thresholds | ThresholdsOfEach | None:
    """The thresholds that the question gives for these examples: of cases, those of each one's pattern."""
    if question.thresholds is None or case is None or part.cases is None:
        return question.thresholds
    patterns = [
        pattern_of(kinds, context, case).name
        for kinds, context in zip(part.cases.kinds, part.cases.context, strict=True)
    ]
    of_each = [question.pattern_thresholds.get(name, question.thresholds) for name in patterns]

    def gathered(of: Sequence[int | None]) -> NDArray[np.int64] | None:
        return None if None in of else np.array(of, dtype=np.int64)

    return ThresholdsOfEach(
        np.array([each.set_from for each in of_each], dtype=np.int64),
        gathered([each.malignant_from for each in of_each]),
        gathered([each.ruled_out_below for each in of_each]),
        gathered([each.urgent_from for each in of_each]),
        np.array([each.nodes for each in of_each], dtype=np.int64),
    )


def admitted_traits(
    client: Client, part: Examples, traits: Mapping[str, Sequence[str]], columns: Sequence[str]
) -> dict[Trait, NDArray[np.bool_]]:
    """Which pictures `(n,)` of a subgroup have each trait whose counts may leave, column after column."""
    disclosed = unsuppressed(part, traits, client.min_count)
    admitted: dict[Trait, NDArray[np.bool_]] = {}
    for column in columns:
        masks = {value: keep for (of, value), keep in disclosed.items() if of == column}
        sets = {value: part.where(keep) for value, keep in masks.items()}
        whole = without_holding_back(client, sets)
        admitted |= {(column, value): masks[value] for value in whole}
    return admitted


def patients_by_tone(client: Client, parts: Mapping[str, Examples]) -> NDArray[np.int64]:
    """How many patients of each skin tone that a subgroup names some parts have, `(tones,)`.

    A tone of fewer patients than the job's minimum is 0, and must not follow from how many the subgroup has:
    where there is one, every other tone of the subgroup is told as the minimum, which it has at least, or as
    0 where even that would leave too few numbers open. So it is where exact numbers would tell a few patients
    apart beside what was told before.
    """
    traits, least = traits_of(client.dataset), max(client.min_count, 1)
    tones = list(traits.get(DECLARED_TONE, ()))[:-1]
    told = np.zeros(len(tones), dtype=np.int64)
    for part in parts.values():
        if part.traits is None or not tones:
            continue
        of_each = part.traits[:, list(traits).index(DECLARED_TONE)]
        sizes = count_people(of_each, part.people, len(tones) + 1)[:-1]
        enough, few = sizes >= least, int(((sizes > 0) & (sizes < least)).sum())
        exact = {} if few else admitted_traits(client, part, traits, [DECLARED_TONE])
        if len(exact) == enough.sum():
            told[enough] = sizes[enough]
        elif part.num_people >= enough.sum() * least + few * (least - 1):
            told[enough] = least
    return told


def without_holding_back(client: Client, sets: Mapping[str, Examples]) -> list[str]:
    """The names of the sets that may be told of as they are."""
    while sets:
        kept = admit(client.releases, client.id, ANSWERS, sets, client.min_count)
        whole = {name: part for name, part in kept.items() if len(part) == len(sets[name])}
        if len(whole) == len(kept):
            return list(whole)
        sets = whole
    return []


def predictions(
    probabilities: NDArray[np.float32], labels: Sequence[Label], *, folded: bool
) -> dict[str, NDArray[Any]]:
    """The arguments of `count` for a model's predictions: over the job's classes, or benign and malignant.

    To fold, the class of highest probability gives the answer, and the probabilities of each side are
    summed, for calibration (Bdair et al. 2022, section 3.8). Premalignant classes count as malignant there.
    """
    if not folded:
        return {
            "probabilities": probabilities,
            "malignant": malignant_classes(labels),
            "kinds": kind_of_each(labels),
        }
    side = np.array([label.malignancy in ("malignant", "premalignant") for label in labels], dtype=np.bool_)
    summed = np.stack([probabilities[:, ~side].sum(axis=1), probabilities[:, side].sum(axis=1)], axis=1)
    answers = side[probabilities.argmax(axis=1)].astype(np.int64)
    return {"probabilities": summed, "malignant": np.array([False, True]), "answers": answers}

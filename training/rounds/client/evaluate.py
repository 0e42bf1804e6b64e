"""A client's evaluation: predictions on one split, counted by subgroup; no prediction leaves.

For the request `neighbours` a client classifies pictures by its own training pictures, and tells counts:

    P(c | x) = Σ_{i ∈ N_k(x)} 1[c_i = c] exp(s_i / τ) / Σ_{i ∈ N_k(x)} exp(s_i / τ),   s_i = cos(f(x), f(x_i))

for N_k(x) the k training pictures whose features are most alike, c_i their classes and τ the temperature (Wu
et al. 2018, section 3.4, with their weights normalised). Nothing is learned: the figure is of the encoder
alone. A case is the mean of the directions of its pictures' features.

Departures: where Wu et al. have one bank of all training pictures, each client has its own, so that no
feature leaves it. A client with fewer than k training pictures looks at all of them.

The same is disclosed as by a final test, by the same rules. Training pictures of fewer patients than the
job's minimum classify nothing: the counts would disclose how these few are labelled. Nor do they where so few
have withdrawn from the run since they last did: the difference would tell how those were labelled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from registry.bundle.cases import CaseInput, pattern_of
from registry.bundle.conclusions import Tree
from registry.bundle.counting import count
from registry.bundle.counts import Thresholds, ThresholdsOfEach
from registry.bundle.errors import CountsError
from registry.bundle.labels import Label, kind_of_each, malignant_classes
from training.algorithms.client import Client
from training.algorithms.local_model import LocalModel
from training.data.dataset import DECLARED_TONE, Examples, case_of, traits_of
from training.errors import MessageError
from training.messages import Broadcast, Update, reply
from training.models.classifier import as_inputs
from training.models.probe import mean_over_pictures
from training.rounds.client.disclosure import disclosable_traits, sendable
from training.rounds.requests import EVALUATION_BATCH, EvaluateRequest, pack_blocks


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
    """Answer an `EvaluateRequest` with the weights in the client's local model."""
    request = EvaluateRequest.model_validate(broadcast.options)
    parts = sendable(client, request)
    return reply_blocks(
        broadcast,
        client,
        parts,
        {name: predict(client.local_model, part) for name, part in parts.items()},
        request,
    )


def reply_blocks(
    broadcast: Broadcast,
    client: Client,
    parts: Mapping[str, Examples],
    probabilities: Mapping[str, NDArray[np.float32]],
    request: EvaluateRequest,
) -> Update:
    """The answer that carries a block of counts for each part.

    Raises:
        MessageError: when the probabilities cannot be counted, as those of a model that has diverged.
    """
    traits = traits_of(client.dataset) if request.intersections else {}
    labels, case = client.dataset.labels, case_of(client.dataset)
    tree, malignant = Tree(labels), malignant_classes(labels)
    blocks = {}
    try:
        for name, part in parts.items():
            thresholds = thresholds_of(request, part, case)
            blocks[name] = count(
                labels=part.labels,
                lesions=part.lesions,
                patients=part.people,
                smallest_cell=client.smallest_cell,
                thresholds=thresholds,
                parts=disclosable_traits(
                    client, part, traits, [name for name in traits if name != DECLARED_TONE]
                ),
                concluded=tree.count(probabilities[name], part.labels, malignant, thresholds),
                **predictions(probabilities[name], labels, folded=request.folded),
            )
    except CountsError as error:
        raise MessageError(
            f"{client.id}: the model's answers are no probabilities: {error}. It may have diverged; "
            "lower objective.optimizer.lr"
        ) from error
    return reply(broadcast, tensors=pack_blocks(blocks))


def thresholds_of(
    request: EvaluateRequest, part: Examples, case: CaseInput | None
) -> Thresholds | ThresholdsOfEach | None:
    """The thresholds that the request gives for these examples: of cases, those of each one's pattern."""
    if request.thresholds is None or case is None or part.cases is None:
        return request.thresholds
    patterns = [
        pattern_of(kinds, context, case).name
        for kinds, context in zip(part.cases.kinds, part.cases.context, strict=True)
    ]
    of_each = [request.pattern_thresholds.get(name, request.thresholds) for name in patterns]

    def gathered(of: Sequence[int | None]) -> NDArray[np.int64] | None:
        return None if None in of else np.array(of, dtype=np.int64)

    return ThresholdsOfEach(
        np.array([each.set_from for each in of_each], dtype=np.int64),
        gathered([each.malignant_from for each in of_each]),
        gathered([each.ruled_out_below for each in of_each]),
        gathered([each.urgent_from for each in of_each]),
        np.array([each.nodes for each in of_each], dtype=np.int64),
    )


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


def answer_neighbours(broadcast: Broadcast, client: Client, neighbours: int, temperature: float) -> Update:
    """Answer an `EvaluateRequest` by the client's labelled training pictures.

    Args:
        broadcast: the request; how many neighbours vote, and how, is the job's and not the request's.
        client: with features in place of its pictures.
        neighbours: k.
        temperature: τ.
    """
    request = EvaluateRequest.model_validate(broadcast.options)
    known = client.examples("train")
    known = known.where(known.labels >= 0)
    enough = known.num_people >= max(client.min_count, 1)
    parts = sendable(client, request) if enough else {}
    device = client.local_model.device
    bank, labels = directions(known, device), torch.from_numpy(known.labels).to(device)
    votes = {
        name: vote(
            directions(part, device), bank, labels, len(client.dataset.labels), neighbours, temperature
        )
        for name, part in parts.items()
    }
    return reply_blocks(broadcast, client, parts, votes, request)


def directions(examples: Examples, device: torch.device) -> Tensor:
    """The directions f / ‖f‖ of each example's features `(n, features)`; of a case, that of their mean."""
    found = [torch.zeros(0, examples.images.shape[1], device=device)]
    for start in range(0, len(examples), EVALUATION_BATCH):
        positions = np.arange(start, min(start + EVALUATION_BATCH, len(examples)))
        inputs = as_inputs(examples, positions, device)
        found.append(F.normalize(mean_over_pictures(inputs, lambda each: F.normalize(each, dim=-1))))
    return torch.cat(found)


def vote(
    shown: Tensor, bank: Tensor, labels: Tensor, num_classes: int, neighbours: int, temperature: float
) -> NDArray[np.float32]:
    """P(c | x) `(n, classes)` of what is shown.

    Args:
        shown: directions `(n, features)`.
        bank: those of the training pictures `(m, features)`, one or more.
        labels: theirs `(m,)`.
        num_classes: how many classes there are.
        neighbours: k.
        temperature: τ.
    """
    found = np.zeros((len(shown), num_classes), dtype=np.float32)
    for start in range(0, len(shown), EVALUATION_BATCH):
        place = slice(start, start + EVALUATION_BATCH)
        alike, nearest = (shown[place] @ bank.T).topk(min(neighbours, len(bank)), dim=1)
        weights = torch.softmax(alike / temperature, dim=1)
        of_class = F.one_hot(labels[nearest], num_classes).to(weights.dtype)
        found[place] = torch.einsum("nk,nkc->nc", weights, of_class).cpu().numpy()
    return found

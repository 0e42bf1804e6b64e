"""The question `neighbours`: a client classifies pictures by its own training pictures, and tells counts.

    P(c | x) = Σ_{i ∈ N_k(x)} 1[c_i = c] exp(s_i / τ) / Σ_{i ∈ N_k(x)} exp(s_i / τ),   s_i = cos(f(x), f(x_i))

for N_k(x) the k training pictures whose features are most alike, c_i their classes and τ the temperature
(Wu et al. 2018, section 3.4, with their weights normalised). Nothing is learned: the figure is of the encoder
alone. A case is the mean of the directions of its pictures' features.

Departures: where Wu et al. have one bank of all training pictures, each client has its own, so that no
feature leaves it. A client with fewer than k training pictures looks at all of them.

What is told is what a final test tells, at the same door. Training pictures of fewer patients than the job's
minimum answer for nobody: the counts would tell how these few are labelled. Nor do they where so few have
withdrawn from the run since they last did: the difference would tell how those were labelled.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.client import Client
from training.data.dataset import Examples
from training.federation.blocks import EVALUATION_BATCH, EvaluateQuestion
from training.federation.client.evaluate import reply_blocks, sendable
from training.messages.message import Broadcast, Update
from training.models.classifier import as_inputs
from training.models.probe import mean_over_pictures


def answer_neighbours(broadcast: Broadcast, client: Client, neighbours: int, temperature: float) -> Update:
    """Answer an `EvaluateQuestion` by the client's labelled training pictures.

    Args:
        broadcast: the question; how many neighbours vote, and how, is the job's and not the question's.
        client: with features in place of its pictures.
        neighbours: k.
        temperature: τ.
    """
    question = EvaluateQuestion.model_validate(broadcast.options)
    known = client.examples("train")
    known = known.where(known.labels >= 0)
    enough = known.num_people >= max(client.min_count, 1)
    parts = sendable(client, question) if enough else {}
    device = client.local_model.device
    bank, labels = directions(known, device), torch.from_numpy(known.labels).to(device)
    votes = {
        name: vote(
            directions(part, device), bank, labels, len(client.dataset.labels), neighbours, temperature
        )
        for name, part in parts.items()
    }
    return reply_blocks(broadcast, client, parts, votes, question)


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

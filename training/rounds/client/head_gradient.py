"""A client's half of a head that is fitted to convergence: sums of its loss and gradient over training rows.

With x_i the row of an example (what the head takes), t_i its class and c_i its weight,

    L(W, b) = Σ_i c_i (log Σ_k exp(w_k·x_i + b_k) − w_t·x_i − b_t),   ∂L/∂w_k = Σ_i c_i (p_ik − [t_i = k]) x_i

in double precision. Sums of clients add up to those of pooled data. An example is seen whole, and where the
model leaves parts of cases out in training, a second time without parts that are drawn once; both then
weigh half.

Of one subgroup classes with too few patients are not in the gradient, and only in the loss of examples that a
head has not seen: what is chosen by it is not chosen for common classes alone.

With cross-fitting K more heads are fitted, the k-th without the examples of fold k, and one request asks for
the gradients of all. Of their losses only the sum is sent, and that of the examples of each fold by the head
without it; and nothing where two heads are the same, as at a common start: the difference of their gradients
would be that of one fold.

Who chooses W chooses what is summed: at W = 0 and b = 0 a gradient is a sum of rows by class, and two large W
that differ little can single out a row (`docs/privacy.md` says what a coordinator that lies learns). A client
answers in the clear only where each class that it holds has as many patients as the job's minimum, and the
account of releases holds all evaluations as one.
"""

import logging
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.algorithms.client import Client, HeadRows
from training.data.cells import count_people
from training.data.dataset import SERVER, Examples
from training.data.folds import by_fold
from training.errors import DataError, MessageError
from training.messages import Broadcast, Tensors, Update, reply
from training.models.cases import CaseClassifier
from training.models.classifier import as_inputs
from training.randomness import derive_seed
from training.rounds.client.ledger import ANSWERS, EMBEDDING_SUMS, GRADIENTS, disclosable
from training.rounds.requests import BIAS, EVALUATION_BATCH, LOSS, MASS, SQUARES, SUBGROUP, SUM, WEIGHT

LOGGER = logging.getLogger(__name__)


def answer_spread(broadcast: Broadcast, client: Client) -> Update:
    """The number of examples of each class, and the sums of rows and of their squares."""
    held = head_rows(broadcast, client)
    return reply(broadcast, tensors=sums_of_rows(held, len(client.dataset.labels)))


def answer_gradient(broadcast: Broadcast, client: Client) -> Update:
    """Sums of loss and gradient at the heads that arrived.

    Args:
        broadcast: carries W `(heads, classes, features)` and b `(heads, classes)`, float64: one head, or with
            cross-fitting one for each fold after it.
        client: whose training rows.

    Returns:
        The loss of the first head, that of the others together and that of examples by the head without their
        fold, `(3,)`, and the gradients.

    Raises:
        MessageError: other heads than the job has, or two that are the same.
        DataError: in the clear, a class of fewer patients than the job's minimum.
    """
    weight, bias = broadcast.tensors[WEIGHT], broadcast.tensors[BIAS]
    refuse_heads(client, weight, bias)
    return reply(broadcast, tensors=sums_of_gradient(head_rows(broadcast, client), weight, bias))


def sums_of_rows(held: HeadRows, classes: int) -> Tensors:
    """The number of rows of each class, and the sums of rows and of their squares."""
    weighed = held.rows * held.mass[:, None]
    return {
        MASS: torch.zeros(classes, dtype=torch.float64).index_add(0, held.labels, held.mass),
        SUM: weighed.sum(dim=0),
        SQUARES: (weighed * held.rows).sum(dim=0),
    }


def sums_of_gradient(held: HeadRows, weight: Tensor, bias: Tensor) -> Tensors:
    """Sums of loss and gradient at heads `(heads, classes, features)` and `(heads, classes)`."""
    heads, classes, features = weight.shape
    mass = held.mass[:, None].expand(-1, heads).clone()
    if heads > 1:
        assert held.folds is not None, "with cross-fitting every example has a fold"
        mass[torch.arange(len(mass)), 1 + held.folds] = 0
    logits = (held.rows @ weight.flatten(0, 1).T).view(-1, heads, classes) + bias
    truth = held.labels[:, None, None].expand(-1, heads, 1)
    losses = torch.logsumexp(logits, dim=2) - logits.gather(2, truth)[..., 0]
    wrong = torch.softmax(logits, dim=2).scatter_add_(2, truth, -torch.ones_like(truth, dtype=torch.float64))
    wrong *= mass[..., None]
    of_each = (losses * mass).sum(dim=0)
    left_out = losses.new_zeros(())
    if held.folds is not None:
        judged = held.mass if held.judged is None else held.judged
        left_out = (losses[torch.arange(len(losses)), 1 + held.folds] * judged).sum()
    return {
        LOSS: torch.stack([of_each[0], of_each[1:].sum(), left_out]),
        WEIGHT: (wrong.flatten(1).T @ held.rows).view(heads, classes, features),
        BIAS: wrong.sum(dim=0),
    }


def refuse_heads(client: Client, weight: Tensor, bias: Tensor) -> None:
    """Refuse other heads than the job has, and two that are the same.

    Raises:
        MessageError: saying which.
    """
    expected = 1 + (client.crossfit or 0), len(client.dataset.labels)
    if weight.ndim != 3 or not weight.shape[:2] == bias.shape == expected:
        raise MessageError(
            f"{client.id} was asked for gradients of heads of shapes {tuple(weight.shape)} and "
            f"{tuple(bias.shape)}, and its job has {expected[0]} of {expected[1]} classes (data.crossfit). "
            "Send it the same job"
        )
    if len(torch.unique(torch.cat([weight.flatten(1), bias], dim=1), dim=0)) < len(weight):
        raise MessageError(
            f"{client.id} was asked for gradients of {len(weight)} heads of which two are the same: their "
            "difference would be a sum over one fold. Begin each at a place of its own"
        )


def head_rows(broadcast: Broadcast, client: Client) -> HeadRows:
    """The rows of a client's labelled training examples, or of one subgroup's, made once in a stage.

    Raises:
        MessageError: the request names no split, so that its sum could be over other clients each time.
        DataError: in the clear, a class of fewer patients than the job's minimum.
    """
    options = dict(broadcast.options)
    subgroup = options.pop(SUBGROUP, None)
    if options != {"split": "train"} or subgroup not in (None, *client.dataset.subgroups):
        raise MessageError(
            f"{client.id} was asked for sums of a head with the options {dict(broadcast.options)}; they have "
            "to be {split: train}, by which all are over the same clients, and may name a subgroup. Install "
            "the same version there"
        )
    key = client.id, f"{broadcast.stage}/{subgroup or ''}"
    if key not in client.features.rows:
        train = client.examples("train", subgroup)
        labelled = train.where(train.labels >= 0)
        kind = kind_of(client)
        if subgroup is None:
            if not client.masked and client.id != SERVER:
                refuse_rare(client, labelled)
            kept = labelled.where(disclosable_rows(client, kind, "train", labelled))
            client.features.rows[key] = make_rows(broadcast.stage, client, kept)
        else:
            rare = rare_classes(client, labelled)
            if rare:
                codes = ", ".join(client.dataset.labels[k].code for k in rare)
                LOGGER.warning(
                    "%s: the head of %s is not fitted to %s, of fewer than %d patients (privacy.min_count)",
                    *(client.id, subgroup, codes, client.min_count),
                )
            common = labelled.where(~np.isin(labelled.labels, rare))
            fitted = disclosable_rows(client, kind, subgroup, common, labelled)
            judged = disclosable_rows(client, ANSWERS, subgroup, labelled)
            made = make_rows(broadcast.stage, client, labelled.where(fitted | judged))
            client.features.rows[key] = weighed(made, fitted[fitted | judged], judged[fitted | judged])
    return client.features.rows[key]


def kind_of(client: Client) -> str:
    """What gradients are sums of: where rows are linear in features, other sums of features subtract."""
    model = client.local_model.model
    linear = not isinstance(model, CaseClassifier) or not model.fusion.normalises
    return EMBEDDING_SUMS if linear else GRADIENTS


def disclosable_rows(
    client: Client, kind: str, called: str, some: Examples, among: Examples | None = None
) -> NDArray[np.bool_]:
    """Which of these examples, or of those among which they are, a sum of a kind may leave of."""
    least = max(client.min_count, 1)
    parts = by_fold({called: some})
    few = sum(len(part) for part in parts.values() if part.num_people < least)
    if few:
        LOGGER.warning(
            "%s: %d pictures of %s are in no sum: too few patients in their fold or in all "
            "(privacy.min_count)",
            *(client.id, few, called),
        )
    admitted = disclosable(client, kind, parts)
    pictures = [part.identities[:, 0] for part in admitted.values()]
    within = some if among is None else among
    return np.isin(within.identities[:, 0], np.concatenate([np.empty(0, np.int64), *pictures]))


def weighed(made: HeadRows, fitted: NDArray[np.bool_], judged: NDArray[np.bool_]) -> HeadRows:
    """Rows of which some are fitted to, and some are judged by the heads without their fold."""
    views = len(made.rows) // max(len(fitted), 1)
    fits, counts = (torch.from_numpy(np.tile(each, views)).double() for each in (fitted, judged))
    return replace(made, mass=made.mass * fits, judged=made.mass * counts)


def rare_classes(client: Client, examples: Examples) -> list[int]:
    """The classes of which there are too few patients for a sum over them."""
    patients = count_people(examples.labels, examples.people, len(client.dataset.labels))
    return [k for k, n in enumerate(patients.tolist()) if 0 < n < client.min_count]


def refuse_rare(client: Client, examples: Examples) -> None:
    """Refuse to send sums in the clear where a class that is there has too few patients.

    Raises:
        DataError: naming the classes.
    """
    rare = [client.dataset.labels[k].code for k in rare_classes(client, examples)]
    if rare:
        raise DataError(
            f"{client.id} sends no gradients: it has training pictures of fewer than {client.min_count} "
            f"patients (privacy.min_count) of {', '.join(rare)}, which a sum in the clear would tell of; set "
            "privacy.counts.masks or privacy.secure_aggregation, merge classes by data.label_map, or fit: "
            "rounds"
        )


def make_rows(stage: str, client: Client, examples: Examples) -> HeadRows:
    """The rows of these examples: whole, and again without parts that are drawn from the job's seed."""
    model = client.local_model.model.eval()
    whole, drawn = [], []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(derive_seed(client.seed, stage, client.id, "left out"))
        for start in range(0, max(len(examples), 1), EVALUATION_BATCH):  # of none there is an empty batch
            positions = np.arange(start, min(start + EVALUATION_BATCH, len(examples)))
            inputs = as_inputs(examples, positions, client.local_model.device)
            whole.append(model.embed(inputs).double().cpu())
            if isinstance(model, CaseClassifier) and model.fusion.config.drops:
                part = model.fusion.drop(model.as_cases(inputs))
                drawn.append(model.embed(part).double().cpu())
    rows, labels = torch.cat(whole + drawn), torch.from_numpy(examples.labels)
    views = 2 if drawn else 1
    folds = None if examples.folds is None else torch.from_numpy(examples.folds).repeat(views)
    return HeadRows(
        rows, labels.repeat(views), torch.full((len(rows),), 1 / views, dtype=torch.float64), folds
    )

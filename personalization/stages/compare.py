"""The request `compare`: what changes from the global to a personal model on the same pictures.

The personal model is sent as what differs from the global one. A hospital answers each of its labelled
validation pictures with both, and sends how many the one gets right that the other gets wrong, by class; the
answers stay there.
"""

from collections.abc import Mapping, Sequence

import torch

from personalization.stages.per_client import disclosable_together
from registry.bundle.counts.lesions import PairedCounts
from registry.bundle.errors import CountsError
from registry.bundle.labels import malignant_classes
from training.algorithms.client import Client
from training.data.dataset import Examples
from training.errors import MessageError
from training.jobs.stages.base import StageContext
from training.messages.message import Broadcast, Tensors, Update, named, prefixed, reply
from training.rounds.client.disclosure import sendable
from training.rounds.client.evaluate import predict
from training.rounds.requests import COMPARE, EvaluateRequest
from training.rounds.server.ask import Traffic, ask_all, ask_sums
from training.rounds.server.plan import Track

BEFORE, AFTER, PAIRED = "before/", "after/", "paired"


def ask_compared(
    context: StageContext, track: Track, before: Tensors, after: Tensors, traffic: Traffic
) -> PairedCounts:
    """The paired counts over the validation pictures of a track, of all hospitals that judge it.

    Raises:
        QuorumError: when one of them does not answer.
        MessageError: when an answer is no paired counts.
    """
    differs = {name: tensor for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    tensors = {**prefixed(before, BEFORE), **prefixed(differs, AFTER)}
    request = EvaluateRequest(split="validation", subgroups=track.subgroups).model_dump()
    broadcasts = [
        Broadcast(client, context.key, 0, COMPARE, track.name, tensors, request) for client in track.judges
    ]
    return ask_paired(context, broadcasts, traffic)


def ask_paired(context: StageContext, broadcasts: Sequence[Broadcast], traffic: Traffic) -> PairedCounts:
    """The sum of the paired counts of all answers, under masks where counts are."""
    masks = context.job.privacy.masked_counts
    updates = (
        ask_all(context.engine, broadcasts, traffic)
        if masks is None
        else ask_sums(context.engine, broadcasts, traffic, masks)
    )
    classes = len(context.labels)
    return sum((read_paired(update, classes) for update in updates), PairedCounts.zeros(classes))


def ask_compared_folds(
    context: StageContext,
    subgroup: str,
    before: Sequence[Tensors],
    after: Sequence[Tensors],
    traffic: Traffic,
) -> PairedCounts:
    """The paired counts over a subgroup's training examples, each answered by heads without its fold.

    Args:
        context: of the stage.
        subgroup: whose examples.
        before: the heads that may be replaced, without each fold.
        after: those that may take their place.
        traffic: what it costs is added to it.
    """
    tensors: dict[str, torch.Tensor] = {}
    for fold, (old, new) in enumerate(zip(before, after, strict=True)):
        tensors |= {**prefixed(old, f"{fold}/{BEFORE}"), **prefixed(new, f"{fold}/{AFTER}")}
    request = EvaluateRequest(split="train", subgroups=(subgroup,)).model_dump()
    broadcasts = [
        Broadcast(client, context.key, 0, COMPARE, subgroup, tensors, request)
        for client in context.judges("train", [subgroup])
    ]
    return ask_paired(context, broadcasts, traffic)


def answer_compare_folds(broadcast: Broadcast, client: Client) -> Update:
    """The client's part, of features: zeros where nothing may leave.

    Raises:
        MessageError: the request is not about the job's folds.
    """
    request = EvaluateRequest.model_validate(broadcast.options)
    if request.split != "train" or client.crossfit is None:
        raise MessageError(
            f"{client.id} compares heads without a fold on training pictures of a job that has folds "
            f"(data.crossfit); it was asked about {request.split}"
        )
    total = PairedCounts.zeros(len(client.dataset.labels))
    for name, part in sendable(client, request, in_folds=True).items():
        fold = name.rpartition("/")[2]
        old, new = (named(broadcast.tensors, f"{fold}/{of}") for of in (BEFORE, AFTER))
        total += compared(client, part, old, new)
    return reply(broadcast, tensors={PAIRED: torch.from_numpy(total.to_array().astype("int32"))})


def read_paired(update: Update, classes: int) -> PairedCounts:
    """The paired counts of one answer.

    Raises:
        MessageError: there are none, or they do not add up.
    """
    if PAIRED not in update.tensors:
        raise MessageError(f"{update.client} was asked to compare two models and sent no `{PAIRED}`")
    try:
        return PairedCounts.from_array(update.tensors[PAIRED].numpy(), classes)
    except CountsError as error:
        raise MessageError(f"{update.client} sent counts that do not add up: {error}") from error


def answer_compare(broadcast: Broadcast, client: Client, *, together: bool) -> Update:
    """The client's part; zeros where nothing may be disclosed.

    Args:
        broadcast: carries both models.
        client: whose pictures.
        together: whether to treat all its subgroups as one, as for a model of its own.

    Raises:
        MessageError: when the job adds noise to counts; these counts have none.
    """
    if client.noisy:
        raise MessageError(
            f"{client.id} compares no models: its counts get noise (privacy.counts), and these would not"
        )
    request = EvaluateRequest.model_validate(broadcast.options)
    parts = disclosable_together(client, request) if together else sendable(client, request)
    before = named(broadcast.tensors, BEFORE)
    after = {**before, **named(broadcast.tensors, AFTER)}
    total = sum(
        (compared(client, part, before, after) for part in parts.values()),
        PairedCounts.zeros(len(client.dataset.labels)),
    )
    return reply(broadcast, tensors={PAIRED: torch.from_numpy(total.to_array().astype("int32"))})


def compared(
    client: Client, part: Examples, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> PairedCounts:
    """What changes on some examples."""
    answers = []
    for weights in (before, after):
        client.local_model.load(weights)
        answers.append(predict(client.local_model, part).argmax(axis=1))
    malignant = malignant_classes(client.dataset.labels)
    return PairedCounts.count(part.labels, answers[0], answers[1], part.lesions, malignant)

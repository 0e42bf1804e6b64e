"""The coordinator's half of stages that train on features of frozen encoders.

Clients make the features before the first round. Several encoders are projected by one sum of all hospitals.
`federate: {fit: converged}` fits the head that pooled data would give: by one sum of rows, then sums of loss
and gradient (`training.rounds.server.head_fit`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from training.algorithms.client import Client, weights_digest
from training.data.dataset import SPLITS
from training.errors import JobError, MessageError
from training.jobs.stages.base import StageContext
from training.messages import GLOBAL, Broadcast, Shapes, Tensors, Update
from training.models import Classifier
from training.models.classifier import float_state
from training.models.several_encoders import CENTRES, COMPONENTS, Encoders, principal, triangle_size
from training.privacy.settings import PrivacyConfig
from training.randomness import derive_seed
from training.rounds.census import Census
from training.rounds.client.embed import ENCODER
from training.rounds.client.head_gradient import answer_gradient, answer_spread
from training.rounds.requests import EMBED, GRADIENT, GRAM, MASS, MOMENTS, SPREAD, SUBGROUP, SUM
from training.rounds.server.ask import Traffic, ask_all, ask_sums
from training.rounds.server.head_fit import KeptSums, NothingSentError, fit_head


def make_features(context: StageContext, weights: Tensors, traffic: Traffic) -> None:
    """Have every client make features of its pictures.

    Of the encoder only what is not as the job begins travels: every client has that.

    Raises:
        QuorumError: when a client cannot.
    """
    broadcasts = embedding_requests(context, weights, context.census.counts)
    context.metrics_log.log(f"{context.key}: {len(broadcasts)} clients make features of their pictures")
    ask_all(context.engine, broadcasts, traffic)


def embedding_requests(context: StageContext, weights: Tensors, clients: Iterable[str]) -> list[Broadcast]:
    """The request for features of all pictures, by the encoder of these weights, to each client."""
    head = set(context.model.head_names)
    initial = float_state(context.model)
    encoder = {name: weights[name] for name in initial if name not in head}
    changed = {name: tensor for name, tensor in encoder.items() if not torch.equal(tensor, initial[name])}
    tensors = changed if context.key.startswith("0-") else encoder
    options = {ENCODER: weights_digest(encoder)}
    return [Broadcast(client, context.key, 0, EMBED, GLOBAL, tensors, options) for client in clients]


HEAD_SUMS = frozenset({SPREAD, GRADIENT})
REQUESTS = HEAD_SUMS | {MOMENTS}


def ask_sum(
    context: StageContext,
    traffic: Traffic,
    subgroup: str | None,
    request: str,
    tensors: Tensors,
    shapes: Shapes,
) -> Tensors:
    """The sum of every client's answer to one request, under masks where the job has them.

    Over one subgroup's examples where one is named.

    Raises:
        QuorumError: a client gave none.
    """
    masks = context.job.privacy.secure_aggregation or context.job.privacy.masked_counts
    options = {"split": "train", **({} if subgroup is None else {SUBGROUP: subgroup})}
    broadcasts = [
        Broadcast(client, context.key, 0, request, subgroup or GLOBAL, tensors, options)
        for client in context.trainers(
            context.all_subgroups if subgroup is None else (subgroup,), masked=masks is not None
        )
    ]
    if masks is not None:
        updates = ask_sums(context.engine, broadcasts, traffic, masks)
    else:
        updates = ask_all(context.engine, broadcasts, traffic, shapes)
    return {
        name: sum((update.tensors[name] for update in updates), torch.zeros(shape, dtype=torch.float64))
        for name, shape in shapes.items()
    }


def answer_sum(broadcast: Broadcast, client: Client) -> Update:
    """A client's answer to either request, from the features of its pictures."""
    return answer_spread(broadcast, client) if broadcast.ask == SPREAD else answer_gradient(broadcast, client)


def fit_converged(
    context: StageContext, network: Classifier, penalty: float, most: int, traffic: Traffic
) -> tuple[Tensors, tuple[Tensors, ...], Mapping[str, Any]]:
    """Fit the head; the clients have their features.

    Args:
        context: of the stage.
        network: what is behind the encoder.
        penalty: on W.
        most: evaluations.
        traffic: what it costs is added to it.

    Returns:
        The head's weights by name, float32; those without each fold; and what became of the fit.
    """
    weight_name, bias_name = head_of(network)
    classes, features = float_state(network)[weight_name].shape
    log = context.metrics_log
    log.begin(context.key, most, 0)
    found = fit_head(
        partial(ask_sum, context, traffic, None),
        KeptSums(context.folder, context.digest),
        classes,
        features,
        penalty,
        most,
        lambda evaluation, loss: log.advance(context.key, evaluation, most, f"loss {loss:.6f}"),
        context.job.data.crossfit or 0,
        derive_seed(context.job.seed, context.key, "heads apart"),
    )
    log.end()
    if found.evaluations >= most:
        log.log(
            f"{context.key}: the head was not yet at its minimum after {most} evaluations (gradient "
            f"{found.gradient:.2g}); raise `evaluations` or `penalty`"
        )
    n = round(found.n)
    held = say_held_back(context, "the head is", n, context.all_subgroups)
    facts = {
        "n": n,
        "held": held,
        "loss": found.loss,
        "gradient": found.gradient,
        "evaluations": found.evaluations,
    }
    head, *without_fold = (
        {weight_name: weight, bias_name: bias}
        for weight, bias in zip(found.weight.float(), found.bias.float(), strict=True)
    )
    return head, tuple(without_fold), {"converged": facts}


def fit_subgroup(
    context: StageContext,
    network: Classifier,
    subgroup: str,
    towards: Sequence[Tensors],
    strengths: Sequence[float],
    most: int,
    traffic: Traffic,
) -> tuple[Sequence[Tensors], float | None, dict[str, Any]]:
    """Fit a subgroup's heads drawn to given ones, as strongly as suits examples that they have not seen.

    Args:
        context: of the stage.
        network: what is behind the encoder.
        subgroup: whose training examples.
        towards: the head of all, and those without each fold.
        strengths: how strongly, λ.
        most: evaluations of one.
        traffic: what it costs is added to it.

    Returns:
        The heads, the λ that was chosen, None for the given heads, and the facts: to how many of the
        examples that are `held` heads are fitted, `n`, and by λ the loss of examples that a head has not
        seen, over n, `left_out`; `inf` is for the given ones.
    """
    names = head_of(network)
    weight, bias = (torch.stack([head[name] for head in towards]).double() for name in names)
    given = weight, bias
    _, classes, features = weight.shape
    best: tuple[Sequence[Tensors], float | None] = towards, None
    losses: dict[str, float] = {}
    ask = partial(ask_sum, context, traffic, subgroup)
    n = 0
    for place, strength in enumerate(strengths):
        kept = KeptSums(context.folder, context.digest, f"{subgroup}-{place}")
        try:
            found = fit_head(
                ask, kept, classes, features, strength, most, folds=len(towards) - 1, towards=given
            )
        except NothingSentError:
            break
        n = round(found.n)
        losses.setdefault("inf", found.began_at)
        if found.left_out < min(losses.values()):
            heads = zip(found.weight.float(), found.bias.float(), strict=True)
            best = [dict(zip(names, head, strict=True)) for head in heads], strength
        losses[f"{strength:g}"] = found.left_out
    held = say_held_back(context, f"heads of {subgroup} are", n, [subgroup])
    return *best, {"n": n, "held": held, "left_out": losses}


def say_held_back(context: StageContext, heads: str, n: int, subgroups: Sequence[str]) -> int:
    """Say to how many of some subgroups' labelled training examples heads are fitted, if not to all.

    Returns:
        How many there are.
    """
    held = sum(context.census.held(name, "train", subgroups) for name in context.census.counts)
    if n < held:
        context.metrics_log.log(
            f"{context.key}: {heads} fitted to {n} of {held} labelled training examples; the others were "
            "held back where sums with them would show few patients, as the logs of their hospitals say"
        )
    return held


def head_of(network: Classifier) -> tuple[str, str]:
    """The names of weight and bias of a network that is one linear layer.

    Raises:
        JobError: something else of it learns.
    """
    names = sorted(float_state(network), key=lambda name: name.endswith(".bias"))
    fused = next((name for name in names if name.startswith("fusion.")), None)
    if fused is not None or len(names) != 2:
        raise JobError(
            "fit: converged fits one linear layer with a bias, and the head has "
            f"{fused or ', '.join(names)}; set model.fusion: {{width: 0}}, with which it takes facts as they "
            "are, or fit: rounds"
        )
    weight, bias = names
    return weight, bias


def require_sums(census: Census, privacy: PrivacyConfig) -> None:
    """Refuse a fit under masks where a class is of too few pictures, before the first stage begins.

    Raises:
        JobError: naming the classes, and what to change.
    """
    if privacy.secure_aggregation is None and privacy.masked_counts is None:
        return  # each client looks at its own classes
    train = SPLITS.index("train")
    held = sum(counts[train].sum(axis=0) for counts in census.counts.values())
    rare = [code for code, n in zip(census.classes, held.tolist(), strict=False) if 0 < n < privacy.min_count]
    if rare:
        raise JobError(
            f"fit: converged sums gradients by class, and all hospitals together have fewer than "
            f"{privacy.min_count} training pictures (privacy.min_count) of {', '.join(rare)}; merge classes "
            "by data.label_map, lower privacy.min_count, or set fit: rounds"
        )


KEPT = -1  # the place of the answer among a stage's sums: before those of a head


def make_projected(context: StageContext, weights: Tensors, traffic: Traffic) -> Tensors:
    """Have every client make features; of several encoders find the projection, where it is not known.

    Returns:
        The tensors of the projection by name; nothing of one encoder.

    Raises:
        QuorumError: a client cannot, or is missing in the sum.
        MessageError: the sum is not finite, or of nothing.
    """
    make_features(context, weights, traffic)
    several = context.model.encoder
    if not isinstance(several, Encoders) or bool(weights[f"{COMPONENTS}0"].any()):
        return {}
    found = find_projection(context, several, traffic)
    make_features(context, {**weights, **found}, traffic)
    return found


def find_projection(context: StageContext, several: Encoders, traffic: Traffic) -> Tensors:
    """The tensors of the projection by name, float32."""
    kept = KeptSums(context.folder, context.digest)
    shapes = {MASS: torch.Size([1])}
    for n, width in enumerate(several.widths):
        shapes |= {f"{SUM}{n}": torch.Size([width]), f"{GRAM}{n}": torch.Size([triangle_size(width)])}
    sums = kept.get(KEPT, MOMENTS)
    if sums is None:
        sums = ask_sum(context, traffic, None, MOMENTS, {}, shapes)
        if not all(torch.isfinite(tensor).all() for tensor in sums.values()):
            raise MessageError(
                "the sum of the hospitals' features has values that are not finite; look for a hospital "
                "whose encoder gives such features, or remove that encoder"
            )
        kept.put(KEPT, MOMENTS, sums)
    found: Tensors = {}
    for n, count in enumerate(several.kept):
        centre, rows = principal(float(sums[MASS]), sums[f"{SUM}{n}"], sums[f"{GRAM}{n}"], count)
        found = {**found, f"{CENTRES}{n}": centre.float(), f"{COMPONENTS}{n}": rows.float()}
    context.metrics_log.log(
        f"{context.key}: {sum(several.kept)} components of {sum(several.widths)} features are found from "
        f"{float(sums[MASS]):.0f} training pictures"
    )
    return found

"""Fit metrics that a client computes only where the aggregator requests them; scalars of its update.

`received_loss/<subgroup>` is F_{c,s}, the mean cross-entropy of the model that the client received over its
labelled training pictures of a subgroup: in eval mode, without augmentation or class weights, before any
training. Where the aggregator weighs cells, it is of those of a cell. Of fewer patients than
`privacy.min_count` it is not disclosed: of one it would be what the model answers for it. `squared_change`
is ‖θ^t − θ_c‖² over the parameters that travel; normalisation statistics are none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE, Need, Report
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.base import LocalRound
from training.algorithms.objectives.epochs import SubgroupLosses
from training.data.dataset import Examples
from training.errors import MessageError
from training.federation.blocks import EVALUATION_BATCH
from training.messages.message import Tensors, Update
from training.models.classifier import as_inputs

RECEIVED, CHANGE = "received_loss/", "squared_change"


def received_losses(local_model: LocalModel, work: LocalRound) -> dict[str, float]:
    """F_{c,s} as scalars, of the weights in the local model; nothing in it is changed."""
    examples = work.examples.where(work.examples.labels >= 0)
    if work.cell_weights is None:
        told = mean_losses(local_model, work, examples)
    else:
        cells = work.cell_weights.cells
        in_cells = replace(work, subgroups=cells.names)
        losses = mean_losses(local_model, in_cells, cells.as_subgroups(examples))
        disclosed = cells.disclosed(examples, work.min_count)
        told = {cell: loss for cell, loss in losses.items() if cell in disclosed}
    return {RECEIVED + name: loss for name, loss in told.items()}


def mean_losses(local_model: LocalModel, work: LocalRound, examples: Examples) -> Mapping[str, float]:
    """The mean cross-entropy by subgroup over labelled pictures, of the weights in the local model."""
    labels = torch.from_numpy(examples.labels).to(work.device)
    subgroup_losses = SubgroupLosses(work, examples)
    model = local_model.model.eval()
    last = len(examples) if work.steps is None else work.steps * EVALUATION_BATCH
    with torch.no_grad(), local_model.autocast():
        for start in range(0, min(last, len(examples)), EVALUATION_BATCH):
            positions = np.arange(start, min(start + EVALUATION_BATCH, len(examples)))
            logits = model(as_inputs(examples, positions, work.device)).float()
            targets = labels[start : start + EVALUATION_BATCH]
            subgroup_losses.add(positions, F.cross_entropy(logits, targets, reduction="none"))
    return subgroup_losses.losses()


def squared_change(arrived: Tensors, sent: Tensors, parameters: Iterable[str]) -> dict[str, float]:
    """‖θ^t − θ_c‖² as a scalar, over those of the named parameters that were sent, in double precision."""
    total = 0.0
    for name in parameters:
        if name in sent:
            total += float((sent[name].double() - arrived[name].double()).square().sum())
    return {CHANGE: total}


def check_requested(update: Update, needs: frozenset[Need]) -> None:
    """Refuse an update without what the aggregator needs, or with a value that it cannot be.

    A loss may be missing: only its client knows of how many patients its pictures are.

    Args:
        update: what arrived.
        needs: of the aggregator.

    Raises:
        MessageError: naming the client.
    """
    wanted = [CHANGE] if SQUARED_CHANGE in needs else []
    missing = [name for name in wanted if name not in update.scalars]
    if missing:
        raise MessageError(
            f"{update.client} does not report {', '.join(missing)}, which the aggregator needs; "
            "do the coordinator and this site run the same version of dermfed?"
        )
    if RECEIVED_LOSSES in needs:
        wanted += [name for name in update.scalars if name.startswith(RECEIVED)]
    negative = {name: update.scalars[name] for name in wanted if update.scalars[name] < 0}
    if negative:
        raise MessageError(f"{update.client} reports {negative}; expected nothing below 0")


def report_of(update: Update) -> Report:
    """The numbers of an update, as an aggregator reads them."""
    received: Mapping[str, float] = {
        name.removeprefix(RECEIVED): value
        for name, value in update.scalars.items()
        if name.startswith(RECEIVED)
    }
    return Report(update.client, update.num_examples, update.losses, received, update.scalars.get(CHANGE))

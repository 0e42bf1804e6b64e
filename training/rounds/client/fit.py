"""A client's answers to `fit`, `open` and `collect`: one round of training, and what is sent back of it.

Training is what every objective shares: epochs of batches, a gradient step each. `open` gives the exchange
what it needs before the first round, `collect` hands over what stayed.

Some metrics are computed only where the aggregator requests them; they are scalars of the update.
`received_loss/<subgroup>` is F_{c,s}, the mean cross-entropy of the model that the client received over its
labelled training pictures of a subgroup: in eval mode, without augmentation or class weights, before any
training. Where the aggregator weighs cells, it is of those of a cell. Of fewer patients than
`privacy.min_count` it is not disclosed: of one it would be what the model answers for it. `squared_change` is
‖θ^t − θ_c‖² over the parameters that travel; normalisation statistics are none.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE, Need
from training.algorithms.augmentations import scale_down
from training.algorithms.client import Client, State
from training.algorithms.exchanges.base import PREFIX
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.base import LocalRound, LocalTask, Objective
from training.algorithms.objectives.epochs import SubgroupLosses
from training.algorithms.sync import Sync
from training.data.cells import CellClasses, Cells, CellWeights, count_by_subgroup
from training.data.dataset import Examples
from training.errors import DataError
from training.messages import GLOBAL, Broadcast, Tensors, Update, all_finite, named, prefixed, reply
from training.models.classifier import as_inputs
from training.randomness import derive_seed
from training.rounds.requests import CHANGE, EVALUATION_BATCH, RECEIVED, SHARED_STATE, FitRequest

FEWEST_IN_BATCH = 2  # pictures, without which no batch has a variance


@dataclass(frozen=True)
class LocalResult:
    """The result of one client's round without the weights, which are left in the local model.

    Attributes:
        num_examples, losses: N_{c,s} and L_{c,s} by subgroup.
        outgoing: what the exchange carries back.
        kept: what the objective keeps at the client.
        optimizer: the optimizer's state, when the job keeps it.
        scalars: what is logged.
    """

    num_examples: Mapping[str, int]
    losses: Mapping[str, float]
    outgoing: Tensors
    kept: Tensors
    optimizer: Tensors
    scalars: Mapping[str, float]


def train_locally(
    local_model: LocalModel, objective: Objective, work: LocalRound, optimizer_state: Tensors
) -> LocalResult:
    """One client's round on the local model, which holds the state the round starts from.

    Raises:
        DataError: when the client has nothing to train on.
    """
    model = local_model.model.train()
    # For what draws inside the network, such as dropout.
    torch.manual_seed(derive_seed(work.seed, work.stage, work.track, work.round, work.client, "network"))
    task = objective.begin(model, work)
    if sum(task.num_examples().values()) < FEWEST_IN_BATCH:
        raise DataError(
            f"{work.client} has fewer than two pictures to train on with {objective.name}; "
            "give it more, or leave it out of the job"
        )
    optimizer = local_model.optimizer(objective.optimizer)
    restore_optimizer(optimizer, optimizer_state)
    with frozen(model, objective.frozen(local_model.model)), objective.stepping(optimizer) as stepping:
        run_epochs(local_model, objective, work, task, stepping)
    if work.steps is not None:
        return LocalResult({}, {}, {}, {}, {}, {})
    kept_optimizer = optimizer_tensors(optimizer) if objective.optimizer.state == "keep" else {}
    return LocalResult(
        task.num_examples(), task.losses(), task.outgoing(), task.keep(), kept_optimizer, task.scalars()
    )


@contextmanager
def frozen(model: nn.Module, names: frozenset[str]) -> Iterator[None]:
    """Let no gradient reach the named parameters while it lasts; an optimizer then leaves them alone."""
    still = [parameter for name, parameter in model.named_parameters() if name in names]
    for parameter in still:
        parameter.requires_grad = False
        parameter.grad = None
    try:
        yield
    finally:
        for parameter in still:
            parameter.requires_grad = True


def run_epochs(
    local_model: LocalModel,
    objective: Objective,
    work: LocalRound,
    task: LocalTask,
    optimizer: torch.optim.Optimizer,
) -> None:
    """The gradient steps of one client's round."""
    model = local_model.model
    anchor = [parameter.detach().clone() for parameter in model.parameters()] if objective.mu else []
    epochs = objective.epochs if work.steps is None else 1
    steps = max(len(work.examples) // objective.batch_size, 1)  # a guess, until an epoch is over
    for epoch in range(epochs):
        factor = objective.schedule.factor(work.round, work.rounds, epoch, objective.epochs)
        for group in optimizer.param_groups:
            group["lr"] = objective.optimizer.lr * factor * group.get("lr_scale", 1.0)
        step = 0
        for step, batch in enumerate(islice(task.batches(epoch), work.steps), start=1):
            if work.image_size is not None:
                batch = replace(batch, images=scale_down(batch.images, work.image_size))
            optimizer.zero_grad(set_to_none=True)
            with local_model.autocast():
                loss = task.loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            if objective.mu:
                add_proximal_gradient(model, anchor, objective.mu)
            if objective.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), objective.clip_norm)
            optimizer.step()
            task.after_step()
            work.watch((epoch + min(step / steps, 1.0)) / epochs)
        steps = max(step, 1)


def add_proximal_gradient(model: nn.Module, anchor: list[Tensor], mu: float) -> None:
    """Add μ (θ − θ^t), the gradient of FedProx's (μ/2) ‖θ − θ^t‖² (Li et al. 2020, Eq. 2)."""
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), anchor, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter - start, alpha=mu)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as named tensors on the CPU: `<parameter's place>/<key>`."""
    return {
        f"{place}/{key}": torch.as_tensor(value).to("cpu", copy=True)
        for place, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give an optimizer the state that `optimizer_tensors` took.

    A store keeps tensors row by row. Fused kernels walk through a parameter's memory and its state's side by
    side, so the state takes the parameter's own order again (channels last, for a convolution).
    """
    if not tensors:
        return
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, key = name.split("/")
        parameter = parameters[int(place)].detach()
        own = torch.empty_like(parameter if tensor.shape == parameter.shape else tensor, dtype=tensor.dtype)
        state.setdefault(int(place), {})[key] = own.copy_(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


# How what a client keeps is named in its store.
WEIGHTS, OBJECTIVE, OPTIMIZER = "weights/", "objective/", "optimizer/"


def fit(
    broadcast: Broadcast,
    client: Client,
    objective: Objective,
    sync: Sync,
    *,
    rounds: int,
    subgroup: str | None,
    needs: frozenset[Need] = frozenset(),
    weighs_cells: CellClasses | None = None,
    image_size: int | None = None,
) -> Update:
    """The request `fit`: one client's round of local training, from merging what arrived to its update.

    Args:
        broadcast: carries the weights that travel and the exchange's tensors.
        client: who trains.
        objective: what it minimises.
        sync: what travels and how it merges with what the client kept.
        rounds: how many rounds the stage has.
        subgroup: train on this subgroup's pictures alone.
        needs: what the aggregator reads in addition to counts and training losses.
        weighs_cells: what tells classes apart, where the aggregator weighs cells; None where it does not.
        image_size: to how many pixels pictures are scaled down in this round; None for as they are.

    Raises:
        DataError: when there is nothing to train on, what was kept is lost, or the weights diverge.
    """
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round) or State()
    )
    arrived = weights_in(broadcast)
    load_whole(client, sync.merge(arrived, named(kept.tensors, WEIGHTS), kept.scalars))
    work = prepare_work(broadcast, client, kept, rounds=rounds, subgroup=subgroup)
    work = replace(work, image_size=image_size, cell_weights=cell_weights_in(broadcast, client, weighs_cells))
    asked = received_losses(client.local_model, work) if RECEIVED_LOSSES in needs else {}
    names = client.local_model.division(sync)
    before = client.local_model.take(names.watches)
    result = train_locally(client.local_model, objective, work, named(kept.tensors, OPTIMIZER))
    if client.steps is not None:
        return reply(broadcast)

    keep = {
        **prefixed(client.local_model.take(names.keeps), WEIGHTS),
        **prefixed(result.kept, OBJECTIVE),
        **prefixed(result.optimizer, OPTIMIZER),
        **prefixed(work.shared_state, SHARED_STATE),
    }
    notes = sync.note(before, client.local_model.take(names.watches), kept.scalars)
    tensors = {**client.local_model.take(names.shared), **prefixed(result.outgoing, PREFIX)}
    if SQUARED_CHANGE in needs:
        asked |= squared_change(arrived, tensors, dict(client.local_model.model.named_parameters()))
    if keep or notes:
        # The coordinator will refuse such an update; keeping its other half would spoil every later round.
        if not all(all_finite(tensor) for tensor in (*tensors.values(), *keep.values())):
            raise DataError(
                f"{client.id} diverged in round {broadcast.round}: its weights are not finite; what it kept "
                "before stands. Lower objective.optimizer.lr, or set objective.clip_norm"
            )
        client.store.save(
            client.id, store_key(broadcast.stage, broadcast.track), broadcast.round, State(keep, notes)
        )
    return reply(
        broadcast,
        tensors=tensors,
        num_examples=result.num_examples,
        losses=result.losses,
        scalars={**result.scalars, **asked},
    )


def prepare_work(
    broadcast: Broadcast, client: Client, kept: State, *, rounds: int, subgroup: str | None
) -> LocalRound:
    """The inputs of the round that `broadcast` asks for."""
    local_model = client.local_model
    return LocalRound(
        client=client.id,
        stage=broadcast.stage,
        track=broadcast.track,
        round=broadcast.round,
        rounds=rounds,
        seed=client.seed,
        examples=client.examples("train", subgroup),
        subgroups=client.subgroups,
        received=named(broadcast.tensors, PREFIX),
        kept=named(kept.tensors, OBJECTIVE),
        device=local_model.device,
        shared_state=named(broadcast.tensors, SHARED_STATE) or named(kept.tensors, SHARED_STATE),
        min_count=client.min_count,
        frozen_copies=local_model.frozen_copies,
        steps=client.steps,
        watch=client.watch,
    )


def cell_weights_in(
    broadcast: Broadcast, client: Client, weighs_cells: CellClasses | None
) -> CellWeights | None:
    """What a picture of each cell counts in the round; None where the aggregator weighs no cells."""
    if weighs_cells is None:
        return None
    cells = Cells.of(weighs_cells, client.dataset.labels, client.subgroups)
    return CellWeights(cells, FitRequest.model_validate(broadcast.options).cell_weights)


def weights_in(broadcast: Broadcast) -> dict[str, Tensor]:
    """The weights among what arrived."""
    others = (PREFIX, SHARED_STATE)
    return {name: value for name, value in broadcast.tensors.items() if not name.startswith(others)}


def open_exchange(broadcast: Broadcast, client: Client, objective: Objective, *, rounds: int) -> Update:
    """The request `open`: what the exchange needs before the first round, from the initial weights."""
    load_whole(client, weights_in(broadcast))
    work = prepare_work(broadcast, client, State(), rounds=rounds, subgroup=None)
    model = client.local_model.model.train()
    with torch.no_grad(), client.local_model.autocast():
        tensors = objective.open(model, work)
    held = count_by_subgroup(work.examples, work.subgroups)
    return reply(broadcast, tensors=prefixed(tensors, PREFIX), num_examples=held)


def load_merged(broadcast: Broadcast, client: Client, sync: Sync) -> None:
    """Load into the local model what the client would start this round from."""
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round + 1)
        or State()
    )
    load_whole(client, sync.merge(broadcast.tensors, named(kept.tensors, WEIGHTS), kept.scalars))


def load_whole(client: Client, state: Tensors) -> None:
    """Load a whole state into the local model, which may still hold another client's.

    Raises:
        DataError: when a tensor is missing: the client no longer has what it kept.
    """
    missing = [name for name in client.local_model.names if name not in state]
    if missing:
        raise DataError(
            f"{client.id} no longer has what it kept of the model: {len(missing)} tensors are missing, first "
            f"{missing[0]}; restore its client store, or start the run anew"
        )
    client.local_model.load(state)


def collect_kept(broadcast: Broadcast, client: Client, sync: Sync) -> Update:
    """The request `collect`: upload, once, the weights that stayed here."""
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round + 1)
        or State()
    )
    shared = set(client.local_model.division(sync).shared)
    stayed = {n: tensor for n, tensor in named(kept.tensors, WEIGHTS).items() if n not in shared}
    held = count_by_subgroup(client.examples("train"), client.subgroups)
    return reply(broadcast, tensors=stayed, num_examples=held)


def own_weights(client: Client, stage: str, rounds: int) -> dict[str, Tensor]:
    """What of the global model's weights stayed at the client through a stage; nothing if it took no part.

    Heads that ended with the stage are not of the model, and left out.
    """
    kept = client.store.load(client.id, store_key(stage, GLOBAL), rounds + 1) or State()
    own = set(client.local_model.names)
    return {name: tensor for name, tensor in named(kept.tensors, WEIGHTS).items() if name in own}


def store_key(stage: str, track: str) -> str:
    """The key of a client's state of one model of one stage in its store."""
    return f"{stage}/{track}"


def received_losses(local_model: LocalModel, work: LocalRound) -> dict[str, float]:
    """F_{c,s} as scalars, of the weights in the local model; nothing in it is changed."""
    examples = work.examples.where(work.examples.labels >= 0)
    if work.cell_weights is None:
        means = mean_losses(local_model, work, examples)
    else:
        cells = work.cell_weights.cells
        in_cells = replace(work, subgroups=cells.names)
        losses = mean_losses(local_model, in_cells, cells.as_subgroups(examples))
        disclosed = cells.disclosed(examples, work.min_count)
        means = {cell: loss for cell, loss in losses.items() if cell in disclosed}
    return {RECEIVED + name: loss for name, loss in means.items()}


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

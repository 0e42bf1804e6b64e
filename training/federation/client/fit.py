"""A client's answers to `fit`, `open` and `collect`: one round of training, and what is sent back of it.

`open` gives the exchange what it needs before the first round, `collect` hands over what stayed.
"""

from dataclasses import replace

import torch
from torch import Tensor

from training.algorithms.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE, Need
from training.algorithms.client import Client, State
from training.algorithms.exchanges.base import PREFIX
from training.algorithms.objectives.base import LocalRound, Objective
from training.algorithms.sync import Sync
from training.data.cells import CellClasses, Cells, CellWeights, count_by_subgroup
from training.errors import DataError
from training.federation.client.local_training import train_locally
from training.federation.fit_question import FitQuestion
from training.federation.questions import SHARED_STATE
from training.federation.requested_scalars import received_losses, squared_change
from training.messages.message import GLOBAL, Broadcast, Tensors, Update, all_finite, named, prefixed, reply

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
    """The question `fit`: one client's round of local training, from merging what arrived to its update.

    Args:
        broadcast: carries the weights that travel and the exchange's tensors.
        client: who trains.
        objective: what it minimises.
        sync: what travels and how it merges with what the client kept.
        rounds: how many rounds the stage has.
        subgroup: train on this subgroup's pictures alone.
        needs: what the aggregator reads beside counts and training losses.
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
    tensors = {**client.local_model.take(names.travels), **prefixed(result.outgoing, PREFIX)}
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
    return CellWeights(cells, FitQuestion.model_validate(broadcast.options).cell_weights)


def weights_in(broadcast: Broadcast) -> dict[str, Tensor]:
    """The weights among what arrived."""
    beside = (PREFIX, SHARED_STATE)
    return {name: value for name, value in broadcast.tensors.items() if not name.startswith(beside)}


def open_exchange(broadcast: Broadcast, client: Client, objective: Objective, *, rounds: int) -> Update:
    """The question `open`: what the exchange needs before the first round, from the initial weights."""
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
    """The question `collect`: upload, once, the weights that stayed here."""
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round + 1)
        or State()
    )
    travels = set(client.local_model.division(sync).travels)
    stayed = {n: tensor for n, tensor in named(kept.tensors, WEIGHTS).items() if n not in travels}
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

"""The questions of the rounds: `fit` trains one round on what arrived and sends back what travels.

`open` gives the exchange what it needs before the first round, `collect` hands over what stayed.
"""

import torch
from torch import Tensor

from training.aggregators.base import RECEIVED_LOSSES, SQUARED_CHANGE, Need
from training.asked_numbers import received_losses, squared_change
from training.client import Client
from training.errors import DataError
from training.exchanges.base import PREFIX
from training.local_training import train_locally
from training.messages import GLOBAL, Broadcast, Tensors, Update, all_finite, named, prefixed, reply
from training.objectives.base import LocalWork, Objective
from training.opening import GIVEN
from training.state import State
from training.subgroups import count_by_subgroup
from training.sync import Sync

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
) -> Update:
    """One client's round.

    Args:
        broadcast: carries the weights that travel and the exchange's tensors.
        client: who trains.
        objective: what it minimises.
        sync: what travels and how it merges with what the client kept.
        rounds: how many rounds the stage has.
        subgroup: train on this subgroup's pictures alone.
        needs: what the aggregator reads beside counts and training losses.

    Raises:
        DataError: when there is nothing to train on, what was kept is lost, or the weights diverge.
    """
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round) or State()
    )
    arrived = weights_in(broadcast)
    load_whole(client, sync.merge(arrived, named(kept.tensors, WEIGHTS), kept.scalars))
    work = prepare_work(broadcast, client, kept, rounds=rounds, subgroup=subgroup)
    asked = received_losses(client.bench, work) if RECEIVED_LOSSES in needs else {}
    names = client.bench.division(sync)
    before = client.bench.take(names.watches)
    result = train_locally(client.bench, objective, work, named(kept.tensors, OPTIMIZER))
    if client.steps is not None:
        return reply(broadcast)

    keep = {
        **prefixed(client.bench.take(names.keeps), WEIGHTS),
        **prefixed(result.kept, OBJECTIVE),
        **prefixed(result.optimizer, OPTIMIZER),
        **prefixed(work.given, GIVEN),
    }
    notes = sync.note(before, client.bench.take(names.watches), kept.scalars)
    tensors = {**client.bench.take(names.travels), **prefixed(result.outgoing, PREFIX)}
    if SQUARED_CHANGE in needs:
        asked |= squared_change(arrived, tensors, dict(client.bench.model.named_parameters()))
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
) -> LocalWork:
    """What an objective has to work with in the round that `broadcast` asks for."""
    bench = client.bench
    return LocalWork(
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
        device=bench.device,
        given=named(broadcast.tensors, GIVEN) or named(kept.tensors, GIVEN),
        min_count=client.min_count,
        twins=bench.twins,
        steps=client.steps,
    )


def weights_in(broadcast: Broadcast) -> dict[str, Tensor]:
    """The weights among what arrived."""
    beside = (PREFIX, GIVEN)
    return {name: value for name, value in broadcast.tensors.items() if not name.startswith(beside)}


def open_exchange(broadcast: Broadcast, client: Client, objective: Objective, *, rounds: int) -> Update:
    """The question `open`: what the exchange needs before the first round, from the initial weights."""
    load_whole(client, weights_in(broadcast))
    work = prepare_work(broadcast, client, State(), rounds=rounds, subgroup=None)
    model = client.bench.model.train()
    with torch.no_grad(), client.bench.autocast():
        tensors = objective.open(model, work)
    held = count_by_subgroup(work.examples, work.subgroups)
    return reply(broadcast, tensors=prefixed(tensors, PREFIX), num_examples=held)


def load_merged(broadcast: Broadcast, client: Client, sync: Sync) -> None:
    """Put into the workbench what the client would start this round from."""
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round + 1)
        or State()
    )
    load_whole(client, sync.merge(broadcast.tensors, named(kept.tensors, WEIGHTS), kept.scalars))


def load_whole(client: Client, state: Tensors) -> None:
    """Put a state into the workbench, where another client's may still be.

    Raises:
        DataError: when a tensor is missing: the client no longer has what it kept.
    """
    missing = [name for name in client.bench.names if name not in state]
    if missing:
        raise DataError(
            f"{client.id} no longer has what it kept of the model: {len(missing)} tensors are missing, first "
            f"{missing[0]}; restore its client store, or start the run anew"
        )
    client.bench.load(state)


def collect_kept(broadcast: Broadcast, client: Client, sync: Sync) -> Update:
    """The question `collect`: upload, once, the weights that stayed here."""
    kept = (
        client.store.load(client.id, store_key(broadcast.stage, broadcast.track), broadcast.round + 1)
        or State()
    )
    travels = set(client.bench.division(sync).travels)
    stayed = {n: tensor for n, tensor in named(kept.tensors, WEIGHTS).items() if n not in travels}
    held = count_by_subgroup(client.examples("train"), client.subgroups)
    return reply(broadcast, tensors=stayed, num_examples=held)


def own_weights(client: Client, stage: str, rounds: int) -> dict[str, Tensor]:
    """What of the global model's weights stayed at the client through a stage; nothing if it took no part.

    Heads that ended with the stage are not of the model, and left out.
    """
    kept = client.store.load(client.id, store_key(stage, GLOBAL), rounds + 1) or State()
    own = set(client.bench.names)
    return {name: tensor for name, tensor in named(kept.tensors, WEIGHTS).items() if name in own}


def store_key(stage: str, track: str) -> str:
    """Under what a client keeps its state of one model of one stage."""
    return f"{stage}/{track}"

"""The round loop. It names no algorithm: objective, sync, exchange and aggregator do their parts.

Choose the cohort → build each client's `Broadcast` → ask the engine → check each `Update` → aggregate →
evaluate by subgroup → log → checkpoint. A stage may train several models side by side, one per subgroup; each
is a `Track`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from training.algorithms.aggregators.base import AggregationWeights, Report
from training.algorithms.aggregators.weighting import FedAvg
from training.algorithms.exchanges.base import PREFIX, Parcel
from training.errors import QuorumError
from training.messages import GLOBAL, Answer, Broadcast, Engine, Failure, Tensors, Update, prefixed
from training.privacy.secagg.server import Ask
from training.privacy.secagg.sums import mix_masked
from training.randomness import derive_seed, generator
from training.rounds.requests import (
    CHANGE,
    COLLECT,
    EVALUATE,
    FIT,
    OPEN,
    RECEIVED,
    SHARED_STATE,
    Blocks,
    EvaluateRequest,
    FitRequest,
    send_canary,
)
from training.rounds.server.ask import (
    Traffic,
    ask_all,
    ask_blocks,
    ask_counted,
    bytes_by_client,
    traffic_text,
)
from training.rounds.server.checkpoint import Checkpoints, restore, save
from training.rounds.server.metrics import MetricsLog, note_on, round_line
from training.rounds.server.plan import Plan, States, Track, TrackState, choose_cohort, weights_for
from training.rounds.server.validation import validate_updates

AfterRound = Callable[[int, States, Blocks], None]


def run_rounds(
    plan: Plan,
    states: States,
    engine: Engine,
    metrics_log: MetricsLog,
    checkpoints: Checkpoints,
    after_round: AfterRound | None = None,
) -> tuple[States, Traffic]:
    """All rounds of a stage, from the newest checkpoint if there is one; returns the models and the traffic.

    `after_round` sees each round's models, counts and what they stand for before its checkpoint is written;
    after a kill it may see the same round again.

    Raises:
        QuorumError: when a model gets fewer answers than it needs; the last checkpoint stands.
        CheckpointError: when the disk is full; the last checkpoint stands.
    """
    done, states, traffic = restore(plan, states, metrics_log, checkpoints)
    metrics_log.begin(plan.stage, plan.rounds, done)
    before = replace(traffic)
    if done == 0:
        states = {
            track.name: initialize(plan, track, states[track.name], engine, traffic) for track in plan.tracks
        }
        if plan.canary:
            send_canary(first_requests(plan, states), engine, plan.min_clients, metrics_log.log)
    for round_ in range(done + 1, plan.rounds + 1):
        started = perf_counter()
        cohorts = {track.name: choose_cohort(track, plan, round_) for track in plan.tracks}
        asked = [
            fit_broadcast(plan, track, states[track.name], client, round_)
            for track in plan.tracks
            for client in cohorts[track.name]
        ]
        broadcasts = [broadcast for broadcast, _ in asked]
        sent: dict[str, dict[str, int]] = {}
        answers = ask_and_record(engine, traffic, sent, broadcasts)
        updates, failures = validate_updates(plan, states, broadcasts, answers)
        aggregations: dict[str, AggregationWeights] = {}
        for track in plan.tracks:
            require_quorum(plan, track, round_, cohorts[track.name], updates[track.name], failures)
            aggregations[track.name], states[track.name], left = aggregate(
                plan, states[track.name], updates[track.name], partial(ask_and_record, engine, traffic, sent)
            )
            failures += left
            gone = {failure.client for failure in left}
            updates[track.name] = [update for update in updates[track.name] if update.client not in gone]
        states = conclude(plan, states, updates, round_)
        if round_ == plan.rounds and plan.local and plan.average_at_end:
            states = average_local(plan, states, engine, traffic)
        blocks, silent = evaluate_tracks(plan, states, engine, round_, traffic)
        failures += silent
        for failure in failures:
            about = "" if failure.track == GLOBAL else f" of {failure.track}"
            metrics_log.log(f"{plan.stage} {round_}{about}: without {failure.client}: {failure.reason}")
        line = round_line(
            plan.stage, round_, cohorts, updates, failures, aggregations, blocks, notes_by_track(asked)
        )
        metrics_log.write(
            {
                **line,
                "server": {name: dict(state.server) for name, state in states.items()},
                "bytes_up": traffic.up - before.up,
                "bytes_down": traffic.down - before.down,
                "bytes_by_client": sent,
                "seconds": round(perf_counter() - started, 3),
                **({"dismissed": dict(plan.dismissed)} if plan.dismissed else {}),
            }
        )
        if after_round is not None:
            after_round(round_, states, blocks)
        save(plan, round_, states, traffic, metrics_log, checkpoints)
        moved = traffic_text(traffic.up - before.up, traffic.down - before.down)
        before = replace(traffic)
        del asked, broadcasts, answers, updates  # the next round's messages need the room
        metrics_log.advance(plan.stage, round_, plan.rounds, f"{note_on(line)}, {moved}")
    metrics_log.end()
    return states, traffic


def initialize(plan: Plan, track: Track, state: TrackState, engine: Engine, traffic: Traffic) -> TrackState:
    """A model's state before round 1: the objective's shared state, and the exchange's memory.

    Raises:
        QuorumError: when a client does not answer; every client that trains is asked.
    """

    def ask(request: str, tensors: Tensors, options: Mapping[str, Any] | None = None) -> Sequence[Update]:
        broadcasts = [
            Broadcast(client, plan.stage, 0, request, track.name, tensors, options or {})
            for client in track.trainers
        ]
        return ask_all(engine, broadcasts, traffic)

    if plan.prepare is not None:
        seed = derive_seed(plan.seed, plan.stage, track.name, "prepare")
        state = replace(state, shared_state=plan.prepare(ask, seed))
    if plan.exchange.opens:
        memory = state.memory
        for update in ask(OPEN, {**state.weights, **prefixed(state.shared_state, SHARED_STATE)}):
            plan.exchange.check(update, memory)
            memory = plan.exchange.collect(update, memory, plan.server_context)
        state = replace(state, memory=memory)
    return state


def fit_broadcast(
    plan: Plan, track: Track, state: TrackState, client: str, round_: int
) -> tuple[Broadcast, Parcel]:
    """The request `fit` to one client, and what the exchange put into it."""
    random = generator(plan.seed, plan.stage, track.name, round_, client, "exchange")
    parcel = plan.exchange.outgoing(client, round_, state.memory, random, plan.server_context)
    extra = prefixed(parcel.tensors, PREFIX)
    if state.shared_state and client not in state.participants:
        extra |= prefixed(state.shared_state, SHARED_STATE)
    tensors = plan.compressor.down(weights_for(plan, state, client))
    if extra:
        tensors = {**tensors, **extra}
    weights = plan.aggregator.cell_weights(state.server)
    options = FitRequest(cell_weights=weights).model_dump() if weights else {}
    return Broadcast(client, plan.stage, round_, FIT, track.name, tensors, options), parcel


def first_requests(plan: Plan, states: States) -> list[Broadcast]:
    """What every client that trains would be asked in the first round, were all of them in it."""
    return [
        fit_broadcast(plan, track, states[track.name], client, 1)[0]
        for track in plan.tracks
        for client in track.trainers
    ]


def notes_by_track(asked: Sequence[tuple[Broadcast, Parcel]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The log notes of the exchange's parcels, by model and client, where there are any."""
    notes: dict[str, dict[str, Mapping[str, Any]]] = {}
    for broadcast, parcel in asked:
        if parcel.note:
            notes.setdefault(broadcast.track, {})[broadcast.client] = parcel.note
    return notes


def require_quorum(
    plan: Plan,
    track: Track,
    round_: int,
    asked: Sequence[str],
    updates: Sequence[Update],
    failures: Sequence[Failure],
) -> None:
    """Refuse a round with too few answers; who did not answer is named, never left out silently."""
    needed = len(asked) if plan.min_clients is None else min(plan.min_clients, len(asked))
    if len(updates) < max(needed, 1):
        reasons = "; ".join(f"{f.client}: {f.reason}" for f in failures if f.track == track.name)
        raise QuorumError(
            f"round {round_} of {plan.stage} ({track.name}): {len(updates)} of {len(asked)} clients "
            f"answered, {needed} are needed (engine.min_clients). {reasons}. "
            "Mend what they report and continue with --resume, or lower engine.min_clients"
        )


def aggregate(
    plan: Plan, state: TrackState, updates: Sequence[Update], ask: Ask
) -> tuple[AggregationWeights, TrackState, Sequence[Failure]]:
    """The next model from the updates, what the server remembers, and who left while they were summed.

    Raises:
        QuorumError: when they are summed under masks, and too few stay.
    """
    reports = [report_of(update) for update in updates]
    aggregation, server = plan.aggregator.aggregate(reports, state.server)
    memory = state.memory
    for update in updates:
        memory = plan.exchange.collect(update, memory, plan.server_context)
    left: Sequence[Failure] = ()
    if plan.masks is None:
        weights = mix(aggregation, updates, state.weights, plan.shared)
    else:
        aggregation, weights, summed = mix_masked(
            ask, aggregation, updates, state.weights, plan.shared, plan.masks
        )
        left = summed.failures
    participants = state.participants | {update.client for update in updates}
    return aggregation, TrackState(weights, server, memory, participants, state.shared_state), left


def mix(
    aggregation: AggregationWeights, updates: Sequence[Update], previous: Tensors, names: Sequence[str]
) -> dict[str, Tensor]:
    """θ ← Σ_c w_c θ_c + w_previous θ^t for the named tensors; those not named stay as they were.

    Args:
        aggregation: the weights.
        updates: in client order, at least one; each is read once and only one is in memory at a time if they
            are spooled.
        previous: θ^t.
        names: what travelled.
    """
    total: dict[str, Tensor] = {}
    for update in updates:
        weight = aggregation.clients.get(update.client, 0.0)
        tensors = dict(update.tensors.items())
        for name in names:
            if name not in total:
                total[name] = start(aggregation, previous[name], tensors[name])
            total[name].add_(tensors[name], alpha=weight)
    return {**previous, **total}


def start(aggregation: AggregationWeights, previous: Tensor, update: Tensor) -> Tensor:
    """w_previous θ^t, laid out in memory as the updates are: adding across layouts is three times slower."""
    total = torch.zeros_like(update, dtype=previous.dtype)
    return total.add_(previous, alpha=aggregation.previous) if aggregation.previous else total


def ask_and_record(
    engine: Engine, traffic: Traffic, sent: dict[str, dict[str, int]], broadcasts: Sequence[Broadcast]
) -> Sequence[Answer]:
    """Answers as they come, with their bytes counted and added to what each client was sent and gave."""
    answers = ask_counted(engine, traffic, broadcasts)
    for client, moved in bytes_by_client(broadcasts, answers, beside=PREFIX).items():
        entry = sent.setdefault(client, dict.fromkeys(moved, 0))
        for way, count in moved.items():
            entry[way] += count
    return answers


def conclude(plan: Plan, states: States, updates: Mapping[str, Sequence[Update]], round_: int) -> States:
    """Let the exchange look back on the round, now that no update's tensors are needed any more."""
    return {
        name: replace(
            state,
            memory=plan.exchange.conclude(
                [update.client for update in updates[name]], round_, state.memory, plan.server_context
            ),
        )
        for name, state in states.items()
    }


def average_local(plan: Plan, states: States, engine: Engine, traffic: Traffic) -> States:
    """Average what stayed at the clients, once, by their training pictures.

    Raises:
        QuorumError: when a client that trained does not upload what it kept.
    """
    averaged: States = {}
    for track in plan.tracks:
        state = states[track.name]
        clients = [client for client in track.trainers if client in state.participants]
        broadcasts = [Broadcast(client, plan.stage, plan.rounds, COLLECT, track.name) for client in clients]
        shapes = {name: state.weights[name].shape for name in plan.local}
        updates = ask_all(engine, broadcasts, traffic, shapes if plan.masks is None else None)
        if plan.bounds is not None:
            for update in updates:
                plan.bounds.refuse_training(update)
        reports = [Report(update.client, update.num_examples, {}) for update in updates]
        aggregation, _ = FedAvg().aggregate(reports, {})
        if plan.masks is None:
            weights = mix(aggregation, updates, state.weights, plan.local)
        else:
            held = [replace(update, tensors=dict(update.tensors.items())) for update in updates]
            ask = partial(ask_counted, engine, traffic)
            _, weights, _ = mix_masked(ask, aggregation, held, state.weights, plan.local, plan.masks)
        averaged[track.name] = replace(state, weights=weights)
    return averaged


def evaluate_tracks(
    plan: Plan, states: States, engine: Engine, round_: int, traffic: Traffic
) -> tuple[Blocks, Sequence[Failure]]:
    """Counts after a round by subgroup, each from the model meant for it, and the clients that gave none."""
    if plan.split is None or not plan.evaluates(round_):
        return {}, []
    request = {
        track.name: EvaluateRequest(split=plan.split, subgroups=track.subgroups).model_dump()
        for track in plan.tracks
    }
    broadcasts = [
        Broadcast(
            client,
            plan.stage,
            round_,
            EVALUATE,
            track.name,
            # Under masks all are asked the same, to the last bit.
            plan.compressor.down(
                weights_for(plan, states[track.name], client)
                if plan.masked_counts is None
                else states[track.name].weights
            ),
            request[track.name],
        )
        for track in plan.tracks
        for client in track.judges
    ]
    return ask_blocks(engine, broadcasts, traffic, plan.masked_counts, plan.bounds)


def report_of(update: Update) -> Report:
    """The numbers of an update, as an aggregator reads them."""
    received: Mapping[str, float] = {
        name.removeprefix(RECEIVED): value
        for name, value in update.scalars.items()
        if name.startswith(RECEIVED)
    }
    return Report(update.client, update.num_examples, update.losses, received, update.scalars.get(CHANGE))

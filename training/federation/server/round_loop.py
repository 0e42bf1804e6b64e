"""The round loop. It names no algorithm: objective, sync, exchange and aggregator do their parts.

Choose the cohort → build each client's `Broadcast` → ask the engine → check each `Update` → aggregate →
evaluate by subgroup → log → checkpoint. A stage may train several models side by side, one per subgroup;
each is a `Track`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from training.algorithms.aggregators.base import Mixture, Report
from training.algorithms.aggregators.weighting import FedAvg
from training.algorithms.exchanges.base import PREFIX, Parcel
from training.errors import MessageError, QuorumError
from training.federation.blocks import Blocks, EvaluateQuestion
from training.federation.canary import send_canary
from training.federation.fit_question import FitQuestion
from training.federation.questions import COLLECT, EVALUATE, FIT, SHARED_STATE
from training.federation.requested_scalars import check_requested, report_of
from training.federation.server.aggregation import mix
from training.federation.server.ask import (
    Traffic,
    ask_all,
    ask_blocks,
    ask_counted,
    bytes_by_client,
    traffic_text,
)
from training.federation.server.checkpoint import Checkpoints, restore, save
from training.federation.server.initialization import initialize_rounds
from training.federation.server.metrics_log import MetricsLog
from training.federation.server.norm_bound import refuse_beyond_bound
from training.federation.server.plan import Plan, States, Track, TrackState
from training.federation.server.round_metrics import RoundMetrics
from training.messages.engine import Engine
from training.messages.message import (
    GLOBAL,
    Answer,
    Broadcast,
    Failure,
    Tensors,
    Update,
    check_trained,
    check_update,
    prefixed,
)
from training.seeds import generator
from training.updates.secure_aggregation.aggregation import mix_masked
from training.updates.secure_aggregation.server import Ask

AfterRound = Callable[[int, States, Blocks], None]


@dataclass(frozen=True)
class RoundEvaluation:
    """Counts of a round by subgroup, each from the model that is meant for it.

    Attributes:
        blocks: the counts.
        silent: the clients that gave none.
    """

    blocks: Blocks = field(default_factory=dict)
    silent: Sequence[Failure] = ()


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
        states = initialize_rounds(plan, states, engine, traffic)
        if plan.canary:
            send_canary(first_questions(plan, states), engine, plan.min_clients, metrics_log.log)
    for round_ in range(done + 1, plan.rounds + 1):
        started = perf_counter()
        cohorts = {track.name: choose_cohort(track, plan, round_) for track in plan.tracks}
        asked = [
            fit_broadcast(plan, track, states[track.name], client, round_)
            for track in plan.tracks
            for client in cohorts[track.name]
        ]
        broadcasts = [broadcast for broadcast, _ in asked]
        answers = engine.run_round(broadcasts)
        traffic.count(broadcasts, answers)
        sent = bytes_by_client(broadcasts, answers, beside=PREFIX)
        updates, failures = admit(plan, states, broadcasts, answers)
        mixtures: dict[str, Mixture] = {}
        for track in plan.tracks:
            require_quorum(plan, track, round_, cohorts[track.name], updates[track.name], failures)
            mixtures[track.name], states[track.name], left = aggregate(
                plan, states[track.name], updates[track.name], partial(ask_and_record, engine, traffic, sent)
            )
            failures += left
            gone = {failure.client for failure in left}
            updates[track.name] = [update for update in updates[track.name] if update.client not in gone]
        states = conclude(plan, states, updates, round_)
        if round_ == plan.rounds and plan.stays and plan.average_at_end:
            states = average_stays(plan, states, engine, traffic)
        found = evaluate_tracks(plan, states, engine, round_, traffic)
        for failure in (*failures, *found.silent):
            about = "" if failure.track == GLOBAL else f" of {failure.track}"
            metrics_log.log(f"{plan.stage} {round_}{about}: without {failure.client}: {failure.reason}")
        notes = notes_by_track(asked)
        line = RoundMetrics.of(
            plan.stage,
            round_,
            cohorts,
            updates,
            [*failures, *found.silent],
            mixtures,
            found.blocks,
            notes,
        )
        metrics_log.write(
            {
                **line.to_json(),
                "server": {name: dict(state.server) for name, state in states.items()},
                "bytes_up": traffic.up - before.up,
                "bytes_down": traffic.down - before.down,
                "bytes_by_client": sent,
                "seconds": round(perf_counter() - started, 3),
                **({"dismissed": dict(plan.dismissed)} if plan.dismissed else {}),
            }
        )
        if after_round is not None:
            after_round(round_, states, found.blocks)
        save(plan, round_, states, traffic, metrics_log, checkpoints)
        moved = traffic_text(traffic.up - before.up, traffic.down - before.down)
        before = replace(traffic)
        del asked, broadcasts, answers, updates  # the next round's messages need the room
        metrics_log.advance(plan.stage, round_, plan.rounds, f"{line.note}, {moved}")
    metrics_log.end()
    return states, traffic


def choose_cohort(track: Track, plan: Plan, round_: int) -> tuple[str, ...]:
    """The clients asked this round, in client order, drawn without replacement; some are always asked."""
    drawn = [client for client in track.trainers if client not in track.always]
    size = plan.cohort_size(track) - len(track.always)
    if size == len(drawn):
        return track.trainers
    random = generator(plan.seed, plan.stage, track.name, round_, "cohort")
    odds = None
    if plan.draw == "by-size":
        held = np.array([track.sizes[client] for client in drawn], dtype=np.float64)
        odds = held / held.sum()
    places = random.choice(len(drawn), size=size, replace=False, p=odds)
    asked = {drawn[place] for place in places} | set(track.always)
    return tuple(client for client in track.trainers if client in asked)


def fit_broadcast(
    plan: Plan, track: Track, state: TrackState, client: str, round_: int
) -> tuple[Broadcast, Parcel]:
    """The question `fit` to one client, and what the exchange put into it."""
    random = generator(plan.seed, plan.stage, track.name, round_, client, "exchange")
    parcel = plan.exchange.outgoing(client, round_, state.memory, random, plan.server_context)
    extra = prefixed(parcel.tensors, PREFIX)
    if state.shared_state and client not in state.participants:
        extra |= prefixed(state.shared_state, SHARED_STATE)
    tensors = plan.compressor.down(weights_for(plan, state, client))
    if extra:
        tensors = {**tensors, **extra}
    weights = plan.aggregator.cell_weights(state.server)
    options = FitQuestion(cell_weights=weights).model_dump() if weights else {}
    return Broadcast(client, plan.stage, round_, FIT, track.name, tensors, options), parcel


def first_questions(plan: Plan, states: States) -> list[Broadcast]:
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


def weights_for(plan: Plan, state: TrackState, client: str) -> Tensors:
    """What travels; a client that has not trained this model yet also gets what will stay with it."""
    if not plan.stays or client not in state.participants:
        return state.weights
    return {name: state.weights[name] for name in plan.travels}


def admit(
    plan: Plan, states: States, broadcasts: Sequence[Broadcast], answers: Sequence[Answer]
) -> tuple[dict[str, list[Update]], list[Failure]]:
    """Check the answers: the valid updates, by track in client order, and the failures of the others."""
    updates: dict[str, list[Update]] = {track.name: [] for track in plan.tracks}
    failures: list[Failure] = []
    for broadcast, answer in zip(broadcasts, answers, strict=True):
        if isinstance(answer, Failure):
            failures.append(answer)
            continue
        weights = states[broadcast.track].weights
        beside = PREFIX if plan.exchange.comes_back else None
        expected = {name: weights[name].shape for name in plan.travels}
        try:
            if plan.masks is not None:
                check_update(answer, broadcast)  # what is withheld is looked at when it is summed
                answer = replace(answer, tensors=dict(answer.tensors.items()))  # others are asked before
            else:
                answer = plan.compressor.up(
                    answer, weights_for(plan, states[broadcast.track], broadcast.client)
                )
                check_update(answer, broadcast, expected, beside)
            check_trained(answer)
            if plan.bounds is not None:
                plan.bounds.refuse_training(answer)
            check_requested(answer, plan.aggregator.needs)
            plan.exchange.check(answer, states[broadcast.track].memory)
        except MessageError as error:
            failures.append(Failure(broadcast.client, broadcast.track, str(error)))
        else:
            updates[broadcast.track].append(answer)
    for track in plan.tracks:
        refused = apply_norm_bound(plan, track, states[track.name], updates[track.name])
        failures += refused
        gone = {failure.client for failure in refused}
        updates[track.name] = [update for update in updates[track.name] if update.client not in gone]
    return updates, failures


def apply_norm_bound(plan: Plan, track: Track, state: TrackState, updates: Sequence[Update]) -> list[Failure]:
    """Failures in place of updates beyond the norm bound; under masks no norm can be computed."""
    if plan.update_limit is None or plan.masks is not None:
        return []

    def received(client: str) -> Tensors:
        return plan.compressor.arrived(weights_for(plan, state, client))

    return refuse_beyond_bound(updates, received, plan.travels, track.sizes, plan.update_limit)


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
) -> tuple[Mixture, TrackState, Sequence[Failure]]:
    """The next model from the updates, what the server remembers, and who left while they were summed.

    Raises:
        QuorumError: when they are summed under masks, and too few stay.
    """
    reports = [report_of(update) for update in updates]
    mixture, server = plan.aggregator.weigh(reports, state.server)
    memory = state.memory
    for update in updates:
        memory = plan.exchange.collect(update, memory, plan.server_context)
    left: Sequence[Failure] = ()
    if plan.masks is None:
        weights = mix(mixture, updates, state.weights, plan.travels)
    else:
        mixture, weights, summed = mix_masked(ask, mixture, updates, state.weights, plan.travels, plan.masks)
        left = summed.failures
    participants = state.participants | {update.client for update in updates}
    return mixture, TrackState(weights, server, memory, participants, state.shared_state), left


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


def average_stays(plan: Plan, states: States, engine: Engine, traffic: Traffic) -> States:
    """Average what stayed at the clients, once, by their training pictures.

    Raises:
        QuorumError: when a client that trained does not upload what it kept.
    """
    averaged: States = {}
    for track in plan.tracks:
        state = states[track.name]
        clients = [client for client in track.trainers if client in state.participants]
        broadcasts = [Broadcast(client, plan.stage, plan.rounds, COLLECT, track.name) for client in clients]
        shapes = {name: state.weights[name].shape for name in plan.stays}
        updates = ask_all(engine, broadcasts, traffic, shapes if plan.masks is None else None)
        if plan.bounds is not None:
            for update in updates:
                plan.bounds.refuse_training(update)
        reports = [Report(update.client, update.num_examples, {}) for update in updates]
        mixture, _ = FedAvg().weigh(reports, {})
        if plan.masks is None:
            weights = mix(mixture, updates, state.weights, plan.stays)
        else:
            held = [replace(update, tensors=dict(update.tensors.items())) for update in updates]
            ask = partial(ask_counted, engine, traffic)
            _, weights, _ = mix_masked(ask, mixture, held, state.weights, plan.stays, plan.masks)
        averaged[track.name] = replace(state, weights=weights)
    return averaged


def evaluate_tracks(
    plan: Plan, states: States, engine: Engine, round_: int, traffic: Traffic
) -> RoundEvaluation:
    """The evaluation after a round, by all clients that hold pictures."""
    if plan.split is None or not plan.evaluates(round_):
        return RoundEvaluation()
    question = {
        track.name: EvaluateQuestion(split=plan.split, subgroups=track.subgroups).model_dump()
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
            question[track.name],
        )
        for track in plan.tracks
        for client in track.judges
    ]
    return RoundEvaluation(*ask_blocks(engine, broadcasts, traffic, plan.masked_counts, plan.bounds))

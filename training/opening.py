"""Before the first round: what the objective prepares for all, and what the exchange must hold to begin."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from training.engines.base import Engine
from training.messages import Broadcast, Tensors, Update, prefixed
from training.plan import Plan, States, Track, TrackState
from training.polling import Traffic, ask_all
from training.seeds import derive_seed

OPEN = "open"
GIVEN = "given/"  # on the wire and in a client's store, before the names of what the objective prepared


def open_rounds(plan: Plan, states: States, engine: Engine, traffic: Traffic) -> States:
    """The models' states with what must be known before the first round.

    Raises:
        QuorumError: when a client does not answer; every client that trains is asked.
    """
    return {track.name: open_track(plan, track, states[track.name], engine, traffic) for track in plan.tracks}


def open_track(plan: Plan, track: Track, state: TrackState, engine: Engine, traffic: Traffic) -> TrackState:
    """One model's state with what must be known before its first round."""

    def ask(question: str, tensors: Tensors, options: Mapping[str, Any] | None = None) -> Sequence[Update]:
        broadcasts = [
            Broadcast(client, plan.stage, 0, question, track.name, tensors, options or {})
            for client in track.trainers
        ]
        return ask_all(engine, broadcasts, traffic)

    if plan.prepare is not None:
        seed = derive_seed(plan.seed, plan.stage, track.name, "prepare")
        state = replace(state, given=plan.prepare(ask, seed))
    if plan.exchange.opens:
        memory = state.memory
        for update in ask(OPEN, {**state.weights, **prefixed(state.given, GIVEN)}):
            plan.exchange.check(update, memory)
            memory = plan.exchange.collect(update, memory, plan.desk)
        state = replace(state, memory=memory)
    return state

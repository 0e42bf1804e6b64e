"""Initialization before round 1: the shared state of an objective, and the first tensors of an exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from training.messages.engine import Engine
from training.messages.message import Broadcast, Tensors, Update, prefixed
from training.rounds.questions import OPEN, SHARED_STATE
from training.rounds.server.ask import Traffic, ask_all
from training.rounds.server.plan import Plan, States, Track, TrackState
from training.seeds import derive_seed


def initialize_rounds(plan: Plan, states: States, engine: Engine, traffic: Traffic) -> States:
    """Initialise every model's state: the objective's shared state, and the exchange's memory.

    Raises:
        QuorumError: when a client does not answer; every client that trains is asked.
    """
    return {
        track.name: initialize_track(plan, track, states[track.name], engine, traffic)
        for track in plan.tracks
    }


def initialize_track(
    plan: Plan, track: Track, state: TrackState, engine: Engine, traffic: Traffic
) -> TrackState:
    """Initialise one model's state."""

    def ask(question: str, tensors: Tensors, options: Mapping[str, Any] | None = None) -> Sequence[Update]:
        broadcasts = [
            Broadcast(client, plan.stage, 0, question, track.name, tensors, options or {})
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

"""A round's models and server state, to a checkpoint and back."""

from dataclasses import asdict

from training.checkpoint import Checkpoint, Checkpoints
from training.journal import Journal
from training.messages import named, prefixed
from training.plan import Plan, States, TrackState
from training.polling import Traffic


def restore(
    plan: Plan, states: States, journal: Journal, checkpoints: Checkpoints
) -> tuple[int, States, Traffic]:
    """Where to go on: the newest checkpoint, or the beginning."""
    newest = checkpoints.newest()
    if newest is None:
        journal.cut(journal.stage_start)
        return 0, states, Traffic()
    journal.cut(newest.log_bytes)
    restored = {
        track.name: TrackState(
            weights=named(newest.tensors, f"{track.name}/weights/"),
            memory=named(newest.tensors, f"{track.name}/memory/"),
            server=newest.facts["server"][track.name],
            seen=frozenset(newest.facts["seen"][track.name]),
            given=named(newest.tensors, f"{track.name}/given/"),
        )
        for track in plan.tracks
    }
    return newest.round, restored, Traffic(**newest.facts["traffic"])


def save(
    plan: Plan, round_: int, states: States, traffic: Traffic, journal: Journal, checkpoints: Checkpoints
) -> None:
    """Write the checkpoint of a round that is complete and logged."""
    facts = {
        "server": {name: dict(state.server) for name, state in states.items()},
        "seen": {name: sorted(state.seen) for name, state in states.items()},
        "traffic": asdict(traffic),
    }
    tensors = {}
    for name, state in states.items():
        tensors.update(prefixed(state.weights, f"{name}/weights/"))
        tensors.update(prefixed(state.memory, f"{name}/memory/"))
        tensors.update(prefixed(state.given, f"{name}/given/"))
    checkpoints.save(Checkpoint(round_, journal.size, facts, tensors))

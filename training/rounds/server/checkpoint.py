"""Checkpoints: the state of a stage of rounds from which a run is resumed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training.messages.message import Tensors, named, prefixed
from training.messages.tensor_file import read_tensors, write_tensors
from training.rounds.server.ask import Traffic
from training.rounds.server.metrics_log import MetricsLog
from training.rounds.server.plan import Plan, States, TrackState

KEPT = 2  # the newest checkpoints that are kept


@dataclass(frozen=True)
class Checkpoint:
    """What a stage knows after a round.

    Attributes:
        round: the round that is complete.
        log_bytes: the length of `metrics.jsonl` when it was written; a resumed run cuts the log there.
        facts: JSON-able server state.
        tensors: weights and other tensors, by name.
    """

    round: int
    log_bytes: int
    facts: Mapping[str, Any]
    tensors: Tensors


class Checkpoints:
    """The checkpoints of one stage, newest two kept.

    Args:
        folder: `checkpoints/<stage>` of the run.
        job: the job's digest; checkpoints of another job are refused.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, then forget all but the newest two.

        Raises:
            CheckpointError: when the disk does not take it; older checkpoints stay.
        """
        header = {"round": checkpoint.round, "log_bytes": checkpoint.log_bytes, "facts": checkpoint.facts}
        path = self._folder / f"round-{checkpoint.round:06d}.safetensors"
        write_tensors(path, self._job, header, checkpoint.tensors)
        for old in self._paths()[:-KEPT]:
            old.unlink()

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint, or None when there is none.

        Raises:
            CheckpointError: when it cannot be read or belongs to another job.
        """
        paths = self._paths()
        if not paths:
            return None
        header, tensors = read_tensors(paths[-1], self._job)
        return Checkpoint(header["round"], header["log_bytes"], header["facts"], tensors)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("round-*.safetensors"))


def restore(
    plan: Plan, states: States, metrics_log: MetricsLog, checkpoints: Checkpoints
) -> tuple[int, States, Traffic]:
    """Where to go on: the newest checkpoint, or the beginning."""
    newest = checkpoints.newest()
    if newest is None:
        metrics_log.cut(metrics_log.stage_start)
        return 0, states, Traffic()
    metrics_log.cut(newest.log_bytes)
    restored = {
        track.name: TrackState(
            weights=named(newest.tensors, f"{track.name}/weights/"),
            memory=named(newest.tensors, f"{track.name}/memory/"),
            server=newest.facts["server"][track.name],
            participants=frozenset(newest.facts["seen"][track.name]),
            shared_state=named(newest.tensors, f"{track.name}/given/"),
        )
        for track in plan.tracks
    }
    return newest.round, restored, Traffic(**newest.facts["traffic"])


def save(
    plan: Plan,
    round_: int,
    states: States,
    traffic: Traffic,
    metrics_log: MetricsLog,
    checkpoints: Checkpoints,
) -> None:
    """Write the checkpoint of a round that is complete and logged."""
    facts = {
        "server": {name: dict(state.server) for name, state in states.items()},
        "seen": {name: sorted(state.participants) for name, state in states.items()},
        "traffic": asdict(traffic),
    }
    tensors = {}
    for name, state in states.items():
        tensors.update(prefixed(state.weights, f"{name}/weights/"))
        tensors.update(prefixed(state.memory, f"{name}/memory/"))
        tensors.update(prefixed(state.shared_state, f"{name}/given/"))
    checkpoints.save(Checkpoint(round_, metrics_log.size, facts, tensors))

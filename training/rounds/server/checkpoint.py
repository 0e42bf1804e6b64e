"""Checkpoints of a stage of rounds: the state that a run is resumed from, and the model that it leaves.

In place of the last round's model a stage may leave

- the mean of the models of all rounds, (1/T) Σ_{t=1..T} θ^t, as agnostic federated learning returns it (Mohri
  et al. 2019, Algorithm 1);
- that of the best round: "the testing results are reported for the models with best validation accuracy"
  (Bdair et al. 2022, section 3).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from registry.bundle.metrics.classification import accuracy
from training.errors import CheckpointError, JobError
from training.messages import GLOBAL, Tensors, named, prefixed
from training.rounds.requests import Blocks
from training.rounds.server.ask import Traffic
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import Plan, States, TrackState
from training.tensor_file import read_tensors, write_tensors

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


ANEW = "restore it, or start the run anew"
KEPT_SUMS = 3  # the newest sums: a run goes on from a checkpoint that is at most two rounds behind the newest


class MeanModel:
    """Adds models up in a stage's folder, in double precision, a file after each round.

    Args:
        folder: of the stage's checkpoints.
        job: the job's digest.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job

    def after_round(self, round_: int, states: States, blocks: Blocks) -> None:
        """Add a round's model to the sum of the rounds before it; done again, the round counts once.

        Raises:
            CheckpointError: when the sum of the rounds before is gone, or the disk is full.
        """
        before = self._sum(round_ - 1) if round_ > 1 else {}
        total = {
            name: value.to(torch.float64) + before[name] if before else value.to(torch.float64)
            for name, value in states[GLOBAL].weights.items()
            if value.is_floating_point()
        }
        write_tensors(self._path(round_), self._job, {"round": round_}, total)
        for place in self._paths()[:-KEPT_SUMS]:
            place.unlink()

    def weights(self, rounds: int, *, last: Tensors) -> dict[str, Tensor]:
        """The mean over the rounds 1 to `rounds`.

        Args:
            rounds: T.
            last: θ^T, for the tensors' types and order; whole numbers have no mean and are taken from it.

        Raises:
            CheckpointError: when the sum is gone.
        """
        total = self._sum(rounds)
        return {
            name: (total[name] / rounds).to(value.dtype) if name in total else value
            for name, value in last.items()
        }

    def forget(self) -> None:
        """Remove all sums."""
        for path in self._paths():
            path.unlink()

    def _sum(self, round_: int) -> Tensors:
        path = self._path(round_)
        if not path.exists():
            raise CheckpointError(
                f"{path} is gone, and with it the sum of the models up to round {round_} that keep: average "
                f"needs; {ANEW}"
            )
        return read_tensors(path, self._job, ANEW)[1]

    def _path(self, round_: int) -> Path:
        return self._folder / f"sum-{round_:06d}.safetensors"

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("sum-*.safetensors"))


class BestRound:
    """Keeps the best model so far in a stage's folder.

    Args:
        folder: of the stage's checkpoints.
        job: the job's digest.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._path = folder / "best.safetensors"
        self._job = job

    def after_round(self, round_: int, states: States, blocks: Blocks) -> None:
        """Keep a round's model if it is the best; the earliest of equals is kept, a round done again is none.

        A round in which no client could judge the model is passed over.
        """
        reached = reached_by(blocks)
        if reached is None:
            return
        known = self._header() if self._path.exists() else None
        # A file of this round or a later one is there when rounds are done again after a kill.
        if known is None or known["round"] >= round_ or reached > known["accuracy"]:
            header = {"round": round_, "accuracy": reached}
            write_tensors(self._path, self._job, header, states[GLOBAL].weights)

    @property
    def round(self) -> int:
        """The number of the best round.

        Raises:
            JobError: when no round was judged.
        """
        return int(self._header()["round"])

    def weights(self) -> Tensors:
        """The weights of the best round."""
        self._header()
        return read_tensors(self._path, self._job, ANEW)[1]

    def forget(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _header(self) -> dict[str, float]:
        if not self._path.exists():
            raise JobError(
                "keep: best has nothing to go by: in no round did any client judge the model; the log says "
                "why of each client that did not answer. If it diverged, lower objective.optimizer.lr"
            )
        return read_tensors(self._path, self._job, ANEW)[0]


def reached_by(blocks: Blocks) -> float | None:
    """The accuracy over all pictures; None where none was counted."""
    points = [block.point for block in blocks.values() if block.point.n]
    return float(accuracy(sum(points[1:], points[0]))) if points else None

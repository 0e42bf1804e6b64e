"""Checkpoints: where a stage of rounds can be taken up again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.messages import Tensors
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

"""Mean model: the mean of the models of all rounds, to leave in place of the last round's.

(1/T) Σ_{t=1..T} θ^t: agnostic federated learning returns it (Mohri et al. 2019, Algorithm 1).
"""

from pathlib import Path

import torch
from torch import Tensor

from training.errors import CheckpointError
from training.messages.message import GLOBAL, Tensors
from training.messages.tensor_file import read_tensors, write_tensors
from training.rounds.blocks import Blocks
from training.rounds.server.plan import States

ANEW = "restore it, or start the run anew"
KEPT = 3  # the newest sums: a run goes on from a checkpoint that is at most two rounds behind the newest


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
        for place in self._paths()[:-KEPT]:
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

"""Best round: keeps the most accurate model of a stage, to leave in place of its last round's.

"The testing results are reported for the models with best validation accuracy" (Bdair et al. 2022, section
3).
"""

from pathlib import Path

from registry.bundle.metrics.classification import accuracy
from training.errors import JobError
from training.messages.message import GLOBAL, Tensors
from training.messages.tensor_file import read_tensors, write_tensors
from training.rounds.blocks import Blocks
from training.rounds.server.plan import States

ANEW = "restore it, or start the run anew"


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

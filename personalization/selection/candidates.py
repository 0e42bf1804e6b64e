"""Candidate epochs of fine-tuning, kept on disk until selection has chosen."""

import json
from collections.abc import Mapping
from pathlib import Path

from training.files import write_text
from training.messages.message import Tensors
from training.messages.tensor_file import read_tensors, write_tensors


class Candidates:
    """Validation accuracy of every epoch, and weights of the first epoch of each distinct accuracy.

    Personal models go by the names of their owners: subgroups, or clients.

    Among epochs of equal accuracy selection takes the earliest, so no other weights can be asked for.
    Writing an epoch again, as a resumed run does, changes nothing.

    Args:
        folder: the stage's own.
        job: the job's digest.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job
        self._index = folder / "epochs.json"
        # owner -> epoch -> validation accuracy, and owner -> pictures
        self._accuracies: dict[str, dict[int, float]] = {}
        self._pictures: dict[str, int] = {}
        if self._index.exists():
            stored = json.loads(self._index.read_text())
            self._pictures = stored["pictures"]
            self._accuracies = {
                name: {int(epoch): value for epoch, value in by_epoch.items()}
                for name, by_epoch in stored["accuracies"].items()
            }

    @property
    def accuracies(self) -> Mapping[str, Mapping[int, float]]:
        """Validation accuracy by owner and epoch; epoch 0 is the global model."""
        return self._accuracies

    @property
    def pictures(self) -> Mapping[str, int]:
        """Validation pictures by owner."""
        return self._pictures

    def keep(
        self, epoch: int, accuracies: Mapping[str, tuple[float, int]], weights: Mapping[str, Tensors]
    ) -> None:
        """Keep one epoch of every personal model.

        Args:
            epoch: which; 0 is the global model, whose weights are elsewhere.
            accuracies: validation accuracy and pictures by owner.
            weights: of the epoch's model by owner.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        for name, (value, n) in accuracies.items():
            by_epoch = self._accuracies.setdefault(name, {})
            earlier = {other for at, other in by_epoch.items() if at < epoch}
            if epoch > 0 and value not in earlier:
                write_tensors(self._path(name, epoch), self._job, {}, weights[name])
            by_epoch[epoch] = value
            self._pictures[name] = n
        write_text(self._index, json.dumps({"accuracies": self._accuracies, "pictures": self._pictures}))

    def weights(self, owner: str, epoch: int) -> Tensors:
        """The weights of one kept epoch."""
        return read_tensors(self._path(owner, epoch), self._job)[1]

    def _path(self, owner: str, epoch: int) -> Path:
        place = list(self._accuracies).index(owner)
        return self._folder / f"candidate-{place}-{epoch:06d}.safetensors"


def candidate_files(folder: Path) -> list[Path]:
    """The weights of all candidates in a stage's folder."""
    return sorted(folder.glob("candidate-*.safetensors"))

"""What an exchange may call at the coordinator: the store of uploads, and a judge of models.

A checkpoint says of which round each client's newest upload is; the file itself is written once and not again
with every checkpoint. The client's previous upload stays, too, which the last checkpoint may still name:
two files of the model's size per client at most, and nothing of them in memory until it is read.

Models are judged by their predictions on noise, and by their accuracy on pictures of the coordinator.
"""

import shutil
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import torch
from torch import Tensor

from training.errors import CheckpointError
from training.messages.message import GLOBAL, Broadcast, Engine, Failure, Tensors, check_update
from training.messages.tensor_file import read_tensors, write_tensors
from training.models import Classifier
from training.models.classifier import float_state
from training.rounds.requests import JUDGE, EvaluateRequest, unpack_blocks


class UploadStore:
    """Keeps each client's newest upload and the one before it, in a folder.

    Args:
        folder: made when something is first put there.
        job: the job's digest; uploads to another job are refused.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job

    def put(self, client: str, round_: int, tensors: Tensors, previous: int | None) -> None:
        """Keep what `client` uploaded in a round, and of its others that of round `previous` alone.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        path = self._path(client, round_)
        write_tensors(path, self._job, {"client": client, "round": round_}, tensors)
        named = {path} if previous is None else {path, self._path(client, previous)}
        for old in set(path.parent.glob("*.safetensors")) - named:
            old.unlink()

    def get(self, client: str, round_: int) -> Tensors:
        """What `client` uploaded in a round.

        Raises:
            CheckpointError: when it is not there, damaged, or of another job.
        """
        path = self._path(client, round_)
        if not path.exists():
            raise CheckpointError(
                f"{path} is missing: what {client} uploaded in round {round_}, from which others learn; "
                "restore it, or start the run anew"
            )
        _, tensors = read_tensors(path, self._job, "restore it, or start the run anew")
        return tensors

    def clear(self) -> None:
        """Forget all uploads."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, client: str, round_: int) -> Path:
        return self._folder / quote(client, safe="") / f"round-{round_:06d}.safetensors"


class NoiseProbe:
    """Predicts pictures of noise, the same for all models, so that models can be compared by function.

    Args:
        model: of the job; what does not travel of it stays as it is there.
        image_size: pixels, both sides.
        seed: from which the pictures are drawn.
    """

    def __init__(self, model: Classifier, image_size: int, seed: int) -> None:
        self._source = model
        self._size = image_size
        self._seed = seed

    @cached_property
    def _model(self) -> Classifier:
        return deepcopy(self._source).eval()

    def predict(self, weights: Tensors, pictures: int) -> Tensor:
        """Probabilities `(pictures, classes)`, float64."""
        random = torch.Generator().manual_seed(self._seed)
        noise = torch.rand(pictures, 3, self._size, self._size, generator=random)
        state = float_state(self._model)
        with torch.no_grad():
            for name, tensor in weights.items():
                state[name].copy_(tensor)
            return torch.softmax(self._model(noise).double(), dim=1)


def validation_accuracy(
    engine: Engine, server: str, stage: str, subgroups: tuple[str, ...], weights: Tensors
) -> float | None:
    """The accuracy of a model on the validation pictures of the client `server`, which the coordinator owns.

    None where the model's answers cannot be counted, as those of weights that overflow.
    """
    request = EvaluateRequest(split="validation", subgroups=subgroups).model_dump()
    broadcast = Broadcast(server, stage, 0, JUDGE, GLOBAL, weights, request)
    (answer,) = engine.run_round([broadcast])
    if isinstance(answer, Failure):
        return None
    check_update(answer, broadcast)
    blocks = unpack_blocks(answer)
    pictures = sum(int(block.point.n) for block in blocks.values())
    if not pictures:
        return None
    right = sum(int(block.point.confusion.trace()) for block in blocks.values())
    return right / pictures

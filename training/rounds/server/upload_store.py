"""The upload store: each client's newest upload, kept by the coordinator on disk.

A checkpoint says of which round each client's newest upload is; the file itself is written once and not
again with every checkpoint. Beside it the client's upload before stays, which the last checkpoint may still
name: two files of the model's size per client at most, and nothing of them in memory until it is read.
"""

import shutil
from pathlib import Path
from urllib.parse import quote

from training.errors import CheckpointError
from training.messages.message import Tensors
from training.messages.tensor_file import read_tensors, write_tensors


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

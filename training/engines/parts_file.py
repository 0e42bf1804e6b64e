"""What workers start from, in a file without a name: no other user reads or changes it, and none is left.

In a pipe, what is too long for it would let a worker start only when the one before has. A file with a name
could be replaced by whoever may write to its folder, and would stay where the coordinator is killed.
"""

import mmap
import os
import pickle
from contextlib import suppress
from multiprocessing.reduction import DupFd
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from training.errors import CheckpointError


class PartsFile:
    """Something pickled, which worker processes inherit as an open file.

    It goes to a process only among the arguments that it is started with.

    Args:
        parts: what to pickle.
        folder: on whose disk.

    Raises:
        CheckpointError: when the disk does not take it.
    """

    def __init__(self, parts: object, folder: Path) -> None:
        try:
            self._file = written(parts, folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot spool what the workers start from to {folder}: {error}; "
                "free some disk space and continue with --resume"
            ) from error

    def load(self) -> Any:
        """A copy of what was pickled."""
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return pickle.loads(content)

    def close(self) -> None:
        """Let go of the file; it is gone when every process has."""
        self._file.close()

    def __getstate__(self) -> Any:
        return DupFd(self._file.fileno())

    def __setstate__(self, inherited: Any) -> None:
        self._file = os.fdopen(inherited.detach(), "rb")


def written(parts: object, folder: Path) -> IO[bytes]:
    """An open file without a name that holds what was pickled; closed where the disk does not take it."""
    file = TemporaryFile(dir=folder)  # noqa: SIM115 - whoever asks closes it
    try:
        pickle.dump(parts, file)
        file.flush()
    except BaseException:
        with suppress(OSError):  # what waits in its buffer cannot be written either
            file.close()
        raise
    return file

"""Store for the sets of pictures whose sums a client released; new releases are checked against them."""

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from training.errors import CheckpointError, MessageError
from training.files import write_bytes

MOST = 4096  # releases that a client keeps; each is of another population


class ReleaseStore(Protocol):
    """Keeps the releases of clients, each under its digest.

    Attributes:
        said: what was logged of releases, so that it is said once.
    """

    said: set[str]

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client, as `(pictures, 3)`."""

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more."""


class MemoryReleases:
    """Releases that are forgotten with the process; a `ReleaseStore`."""

    def __init__(self) -> None:
        """None were made."""
        self._made: dict[tuple[str, str], NDArray[np.int64]] = {}
        self.said: set[str] = set()

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""
        return (client, digest) in self._made

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client."""
        return [release for (owner, _), release in self._made.items() if owner == client]

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more."""
        self._made[client, digest] = release


class FolderReleases:
    """Releases on disk, a file each that is there whole or not at all; a `ReleaseStore`."""

    def __init__(self, folder: Path) -> None:
        """Keep releases in `folder`, which is made with the first."""
        self._folder = folder
        self.said: set[str] = set()

    def has(self, client: str, digest: str) -> bool:
        """Whether this release was made."""
        return self._path(client, digest).exists()

    def all(self, client: str) -> Iterable[NDArray[np.int64]]:
        """Every release of a client.

        Raises:
            MessageError: one cannot be read. Without it nothing can be reported safely.
        """
        for path in sorted(self._place(client).glob("*.npy")):
            try:
                release: NDArray[np.int64] = np.load(path, allow_pickle=False)
            except (OSError, ValueError) as error:
                raise MessageError(
                    f"{client} cannot read what it told before: {error}. Nothing is told until whoever "
                    f"answers for its pictures has looked at {path} and restored or removed it"
                ) from error
            yield release

    def add(self, client: str, digest: str, release: NDArray[np.int64]) -> None:
        """Keep one more.

        Raises:
            MessageError: the disk does not take it, or there are too many.
        """
        if len(list(self._place(client).glob("*.npy"))) >= MOST:
            raise MessageError(
                f"{client} has told counts of {MOST:,} different sets of pictures, the most that it keeps "
                "an account of; whoever answers for its pictures may put "
                f"{self._place(client)} away and begin anew"
            )
        content = io.BytesIO()
        np.save(content, release, allow_pickle=False)
        try:
            write_bytes(self._path(client, digest), content.getvalue())
        except CheckpointError as error:
            raise MessageError(
                f"{client} tells nothing that it cannot keep an account of: {error}"
            ) from error

    def _place(self, client: str) -> Path:
        return self._folder / hashlib.sha256(client.encode()).hexdigest()[:32]

    def _path(self, client: str, digest: str) -> Path:
        return self._place(client) / f"{digest}.npy"

"""The client state store: what a client keeps between rounds, on its own disk.

One folder per client and stage, one safetensors file per round. A file is written under a temporary name,
fsynced and renamed. The two newest rounds are kept, so that a node that is one round ahead of a coordinator
that was restarted can step back; a save forgets every later round, which belongs to a course that was
abandoned.

States that belong together are saved in a transaction: all of them, or none.

    with store.transaction():
        store.save("north", "masks", 3, secrets)
        send(answer)  # where it raises, what was kept before is still there
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from clients.data.errors import ClientDataError
from registry.bundle.folder import flush_folder
from training.algorithms.client import State

KEPT_ROUNDS = 2

_SCALARS = "scalars"  # the metadata entry that holds them, as JSON
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST = 200  # bytes; file systems take 255
_FILE = re.compile(r"round-(\d+)\.safetensors")


class ClientStore:
    """The states of the clients on this machine, on disk; a `StateStore`."""

    def __init__(self, folder: Path) -> None:
        """Keep states in `folder`, which is made when the first is saved."""
        self._folder = folder
        # The files of a transaction, and under which names they wait.
        self._waiting: dict[Path, Path] | None = None

    @contextmanager
    def transaction(self) -> Iterator[Callable[[], None]]:
        """Keep all that is saved within the block when it ends, and nothing of it where it raises.

        What is saved is on disk before the block ends: renaming it needs no room there. Yields what drops all
        that was saved so far.
        """
        waiting = self._waiting = {}

        def drop() -> None:
            while waiting:
                waiting.popitem()[1].unlink(missing_ok=True)

        try:
            yield drop
            for path in list(waiting):
                self._put(waiting.pop(path), path)
        finally:
            self._waiting = None
            drop()

    def load(self, client: str, stage: str, round: int) -> State | None:
        """The newest state of `client` in `stage` from a round before `round`; None when there is none.

        Raises:
            ClientDataError: the state is there but cannot be read.
        """
        place, waiting = self._place(client, stage), self._waiting or {}
        found = _rounds_in(place)
        found |= {_round_of(path): file for path, file in waiting.items() if path.parent == place}
        earlier = {number: path for number, path in found.items() if number < round}
        return _read(earlier[max(earlier)]) if earlier else None

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Keep `state` as what `client` had after `round`; whatever is of a later round is forgotten.

        Raises:
            ClientDataError: the state cannot be written.
        """
        path = self._place(client, stage) / f"round-{round:06d}.safetensors"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(temporary, state)
            if self._waiting is None:
                self._put(temporary, path)
            else:
                self._waiting[path] = temporary
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ClientDataError(
                f"cannot keep the state of client {client!r} in {path.parent}: {error}. Make room on "
                "that disk, or let this user write there"
            ) from error

    def _put(self, temporary: Path, path: Path) -> None:
        """Put a written file into its place, and forget later rounds and all but the newest."""
        rounds = _rounds_in(path.parent)
        # Later rounds go first: were the machine to stop in between, none may look newer than this one.
        for number in [number for number in rounds if number > _round_of(path)]:
            rounds.pop(number).unlink(missing_ok=True)
        temporary.replace(path)
        flush_folder(path.parent)
        rounds[_round_of(path)] = path
        for number in sorted(rounds)[:-KEPT_ROUNDS]:
            rounds[number].unlink(missing_ok=True)

    def forget(self, client: str, stage: str, *, after: int) -> None:
        """Forget what `client` kept after round `after` in `stage` and all that is below it (`stage/…`)."""
        whole, below = _file_name(stage), _file_name(f"{stage}/")
        for folder in (self._folder / _file_name(client)).glob("*"):
            if folder.name != whole and not folder.name.startswith(below):
                continue
            for number, path in _rounds_in(folder).items():
                if number > after:
                    path.unlink(missing_ok=True)

    def _place(self, client: str, stage: str) -> Path:
        return self._folder / _file_name(client) / _file_name(stage)


def _rounds_in(folder: Path) -> dict[int, Path]:
    return {_round_of(path): path for path in folder.glob("round-*") if _FILE.fullmatch(path.name)}


def _round_of(path: Path) -> int:
    return int(path.stem.removeprefix("round-"))


def _file_name(name: str) -> str:
    """`name` as a file name that no other name gets, even where `A` and `a` are the same file.

    All but small letters, digits, `-` and `_` is percent-encoded; a name too long for a file is its digest.
    """
    encoded = "".join(
        chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode("utf-8", "surrogatepass")
    )
    if len(encoded) > _LONGEST:
        return f"={hashlib.sha256(encoded.encode()).hexdigest()}"
    return f"+{encoded}"


def _write(path: Path, state: State) -> None:
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()}
    scalars = {name: float(value) for name, value in state.scalars.items()}
    content = save(tensors, metadata={_SCALARS: json.dumps(scalars)})
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> State:
    try:
        with safe_open(path, framework="pt") as file:
            scalars = json.loads((file.metadata() or {}).get(_SCALARS, "{}"))
            return State({name: file.get_tensor(name) for name in file.keys()}, scalars)  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ClientDataError(f"the kept state {path} cannot be read: {error}; delete it") from error

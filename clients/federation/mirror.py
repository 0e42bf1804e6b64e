"""A copy of the coordinator's `metrics.jsonl` that grows with it, so that whoever follows a run can draw it.

The log may get shorter when a run is taken up from a checkpoint, and grow again with other seconds in it. So
whoever asks tells what it has, and gets either what follows or all of it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZE, DIGEST = "size", "sha256"  # of what is there already
START, TEXT = "metrics_from", "metrics"


def beyond(log: Path, known: object) -> dict[str, Any]:
    """The coordinator's half: what of the log follows what is known; nothing where that is all.

    Args:
        log: `metrics.jsonl`.
        known: what `Mirror.known` told.
    """
    content = log.read_bytes() if log.exists() else b""
    content = content[: content.rfind(b"\n") + 1]
    start = int(known.get(SIZE, 0)) if isinstance(known, dict) else 0
    if start > len(content) or (start and digest(content[:start]) != known.get(DIGEST)):  # type: ignore[attr-defined]
        start = 0
    elif start == len(content):
        return {}
    return {START: start, TEXT: content[start:].decode()}


def digest(content: bytes) -> str:
    """What tells two beginnings apart."""
    return hashlib.sha256(content).hexdigest()


class Mirror:
    """The copy.

    Args:
        path: where; made when something comes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def known(self) -> dict[str, Any]:
        """What is here."""
        content = self._path.read_bytes() if self._path.exists() else b""
        return {SIZE: len(content), DIGEST: digest(content)}

    def take(self, told: Mapping[str, Any]) -> None:
        """Put what came behind what is here, or in its place."""
        if TEXT not in told:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.truncate(int(told[START]))
            file.seek(0, 2)
            file.write(str(told[TEXT]).encode())

"""The metrics log: one line of `metrics.jsonl` a round, beside what whoever waits is told."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from training.errors import CheckpointError
from training.progress import Progress


class MetricsLog:
    """Writes one JSON line a round, and has progress shown.

    Args:
        path: `metrics.jsonl`.
        shown: where progress is shown, or what shows it.

    Attributes:
        progress: what shows it.
        stage_start: the length of the log when the present stage began, also where a run was resumed.
    """

    def __init__(self, path: Path, shown: Console | Progress | None = None) -> None:
        self._path = path
        self.progress = shown if isinstance(shown, Progress) else Progress(shown or Console(stderr=True))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.stage_start = self.size

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self._path.stat().st_size

    def cut(self, size: int) -> None:
        """Drop what was logged after a checkpoint; the rounds will be done and logged again."""
        with self._path.open("r+b") as file:
            file.truncate(min(size, self.size))

    def lines(self) -> list[dict[str, Any]]:
        """Everything logged so far."""
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def write(self, line: Mapping[str, Any]) -> None:
        """Log one round.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CheckpointError(
                f"cannot write {self._path}: {error}; free some disk space and continue with --resume"
            ) from error

    def begin(self, stage: str, rounds: int, done: int) -> None:
        """Show that a stage of rounds begins, `done` of them already done."""
        self.progress.begin(stage, rounds, done)

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """Show that a round is done."""
        self.progress.advance(round_, note)

    def log(self, text: str) -> None:
        """Log one line on the console."""
        self.progress.log(text)

    def end(self) -> None:
        """The rounds are over."""
        self.progress.end()

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.close()

"""The metrics log: one line of `metrics.jsonl` a round, and progress on the console."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from training.errors import CheckpointError


class MetricsLog:
    """Writes one JSON line a round, and shows a bar on a terminal or plain lines elsewhere.

    Args:
        path: `metrics.jsonl`.
        console: where progress is shown.

    Attributes:
        stage_start: the length of the log when the present stage began, also where a run was resumed.
    """

    def __init__(self, path: Path, console: Console | None = None) -> None:
        self._path = path
        self._console = console or Console(stderr=True, file=sys.stderr)
        self._progress: Progress | None = None
        self._task: Any = None
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
        self.end()
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
            )
            self._task = self._progress.add_task(stage, total=rounds, completed=done, note="")
            self._progress.start()

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """Show that a round is done."""
        if self._progress is not None:
            self._progress.update(self._task, completed=round_, note=note)
        else:
            self.log(f"{stage} {round_}/{rounds} {note}")

    def log(self, text: str) -> None:
        """Log one line on the console."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

"""Follows `metrics.jsonl` as it grows and logs it to trackers; the run never waits for them.

A thread of its own reads what is new. What fails is tried again; it is logged once, and stops nothing.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from training.jobs.tracking.figures import figures_of_round, figures_of_test


class Tracker(Protocol):
    """Takes the points of a run's curves, each once."""

    name: str

    def open(self) -> Mapping[str, int]:
        """Get ready; the last round that it knows of each stage, from earlier stays in the run."""

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """Take the points of one round, so that they can be seen."""

    def close(self, *, finished: bool) -> None:
        """The end of this stay in the run, or of the run itself."""


LOOK = 1.0  # seconds between looks at the log
PAUSE = 30.0  # seconds before a tracker that failed is tried again
PATIENCE = 60.0  # seconds that the end of a run waits for what is still to be logged
TEST = "test"  # the stage under which the final figures are drawn


@dataclass
class Cursor:
    """One tracker's position in the log.

    Attributes:
        tracker: where rounds are logged to.
        done: the last round of each stage that was logged; None while it is not open.
        offset: bytes of the log that were read.
        retry_at: seconds on the clock before which it is left alone.
        warned: whether its failure was logged.
    """

    tracker: Tracker
    done: dict[str, int] | None = None
    offset: int = 0
    retry_at: float = 0.0
    warned: bool = field(default=False)


class Follower:
    """Follows one run.

    Args:
        metrics: `metrics.jsonl`; it need not be there yet.
        summary: `summary.json`, which is there when the run has ended.
        trackers: where rounds are logged to.
        log: takes one log line for whoever watches.
        clock: seconds, rising.
    """

    def __init__(
        self,
        metrics: Path,
        summary: Path,
        trackers: Sequence[Tracker],
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._summary = summary
        self._cursors = [Cursor(tracker) for tracker in trackers]
        self._log = log
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="tracking")

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self, seconds: float = PATIENCE) -> None:
        """Log what is left, as far as there is time for it."""
        self._ended.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._log(
                "tracking has not told everything; the rest is told when the run is taken up with --resume"
            )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK):
            self.look()
        for cursor in self._cursors:
            cursor.retry_at = 0.0
        self.look()
        for cursor in self._cursors:
            self._try(cursor, self._close)

    def look(self) -> None:
        """Log what is new to every tracker."""
        if self._metrics.exists():
            for cursor in self._cursors:
                if self._clock() >= cursor.retry_at:
                    self._try(cursor, self._log_new_rounds)

    def _try(self, cursor: Cursor, work: Callable[[Cursor], None]) -> None:
        try:
            work(cursor)
        except Exception as error:  # noqa: BLE001 - a tracker is somebody else's, and no reason to end a run
            cursor.done, cursor.offset, cursor.retry_at = None, 0, self._clock() + PAUSE
            if not cursor.warned:
                cursor.warned = True
                self._log(
                    f"tracking with {cursor.tracker.name} fails: {type(error).__name__}: {error}; the run "
                    "goes on, and it is tried again"
                )

    def _log_new_rounds(self, cursor: Cursor) -> None:
        if cursor.done is None:
            cursor.done = dict(cursor.tracker.open())
        for line in self._new_lines(cursor):
            self._log_once(cursor, line["stage"], line["round"], figures_of_round(line))

    def _close(self, cursor: Cursor) -> None:
        if cursor.done is None:
            return
        finished = self._summary.exists()
        if finished:
            self._log_once(cursor, TEST, 1, figures_of_test(json.loads(self._summary.read_text())))
        cursor.tracker.close(finished=finished)

    def _log_once(self, cursor: Cursor, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        assert cursor.done is not None, "a tracker is opened before anything is logged to it"
        if figures and round_ > cursor.done.get(stage, 0):
            cursor.tracker.log(stage, round_, figures)
            cursor.done[stage] = round_

    def _new_lines(self, cursor: Cursor) -> list[dict[str, Any]]:
        """Whole lines since the last look; from the start where the log was cut, as when a run is resumed."""
        with self._metrics.open("rb") as file:
            if cursor.offset and (
                self._metrics.stat().st_size < cursor.offset or not ends_line(file, cursor.offset)
            ):
                cursor.offset = 0
            file.seek(cursor.offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        cursor.offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def ends_line(file: Any, offset: int) -> bool:
    """Whether a line ends before this place."""
    file.seek(offset - 1)
    return bool(file.read(1) == b"\n")

"""Follows `metrics.jsonl` as it grows and tells trackers of it. The run knows nothing of it and never waits.

A thread of its own reads what is new. What fails is tried again; it is told once, and stops nothing.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.tracking.figures import figures_of_round, figures_of_test
from training.tracking.tracker import Tracker

LOOK = 1.0  # seconds between looks at the log
PAUSE = 30.0  # seconds before a tracker that failed is tried again
PATIENCE = 60.0  # seconds that the end of a run waits for what is still to be told
TEST = "test"  # the stage under which the final figures are drawn


@dataclass
class Course:
    """One tracker's way through the log.

    Attributes:
        tracker: who is told.
        done: the last round told of each stage; None while it is not open.
        offset: bytes of the log that were read.
        rest: seconds on the clock before which it is left alone.
        warned: whether its failure was told.
    """

    tracker: Tracker
    done: dict[str, int] | None = None
    offset: int = 0
    rest: float = 0.0
    warned: bool = field(default=False)


class Follower:
    """Follows one run.

    Args:
        log: `metrics.jsonl`; it need not be there yet.
        summary: `summary.json`, which is there when the run has ended.
        trackers: who is told.
        say: takes one line for whoever watches.
        clock: seconds, rising.
    """

    def __init__(
        self,
        log: Path,
        summary: Path,
        trackers: Sequence[Tracker],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._summary = summary
        self._courses = [Course(tracker) for tracker in trackers]
        self._say = say
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="tracking")

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self, seconds: float = PATIENCE) -> None:
        """Tell what is left, as far as there is time for it."""
        self._ended.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say(
                "tracking has not told everything; the rest is told when the run is taken up with --resume"
            )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK):
            self.look()
        for course in self._courses:
            course.rest = 0.0
        self.look()
        for course in self._courses:
            self._try(course, self._close)

    def look(self) -> None:
        """Tell every tracker what is new."""
        if self._log.exists():
            for course in self._courses:
                if self._clock() >= course.rest:
                    self._try(course, self._tell)

    def _try(self, course: Course, work: Callable[[Course], None]) -> None:
        try:
            work(course)
        except Exception as error:  # noqa: BLE001 - a tracker is somebody else's, and no reason to end a run
            course.done, course.offset, course.rest = None, 0, self._clock() + PAUSE
            if not course.warned:
                course.warned = True
                self._say(
                    f"tracking with {course.tracker.name} fails: {type(error).__name__}: {error}; the run "
                    "goes on, and it is tried again"
                )

    def _tell(self, course: Course) -> None:
        if course.done is None:
            course.done = dict(course.tracker.open())
        for line in self._new_lines(course):
            self._log_once(course, line["stage"], line["round"], figures_of_round(line))

    def _close(self, course: Course) -> None:
        if course.done is None:
            return
        finished = self._summary.exists()
        if finished:
            self._log_once(course, TEST, 1, figures_of_test(json.loads(self._summary.read_text())))
        course.tracker.close(finished=finished)

    def _log_once(self, course: Course, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        assert course.done is not None, "a tracker is opened before it is told anything"
        if figures and round_ > course.done.get(stage, 0):
            course.tracker.log(stage, round_, figures)
            course.done[stage] = round_

    def _new_lines(self, course: Course) -> list[dict[str, Any]]:
        """Whole lines since the last look; from the start where the log was cut, as when a run is resumed."""
        with self._log.open("rb") as file:
            if course.offset and (
                self._log.stat().st_size < course.offset or not ends_line(file, course.offset)
            ):
                course.offset = 0
            file.seek(course.offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        course.offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def ends_line(file: Any, offset: int) -> bool:
    """Whether a line ends before this place."""
    file.seek(offset - 1)
    return bool(file.read(1) == b"\n")

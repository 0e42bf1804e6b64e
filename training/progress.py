"""Show the progress of long work to the user, and estimate the time left.

On a terminal it is a bar in place, elsewhere a line now and then, always on the console's own stream
(standard error), never among results. Nothing of it is logged in `metrics.jsonl`, and nothing depends on it.
What is left is the mean of the seconds of the rounds, or pieces, since the command began, times those left.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from registry.bundle.text import on_one_line, printable

RECENT = 5  # rounds whose mean seconds an estimate rests on, of a run that is followed from elsewhere
EVERY = 15.0  # seconds without a line after which a plain log gets one
LOOK = 1.0  # seconds between two looks at whether one is due
MINUTE, HOUR, DAY = 60, 3600, 86_400

Clock = Callable[[], float]
Watch = Callable[[float], None]  # takes the share of a client's work that is done, 0 to 1
Item = TypeVar("Item")


def unwatched(share: float) -> None:
    """A `Watch` that shows nothing."""


def nothing_under_way() -> float:
    """Stands in for what is done of answers under way, where it is not known."""
    return 0.0


def in_words(seconds: float) -> str:
    """A length of time as people say it: `8 s`, `4 min`, `2 h 10 min`."""
    if seconds < MINUTE - 0.5:
        return f"{max(seconds, 1):.0f} s"
    if seconds < HOUR - MINUTE / 2:
        return f"{seconds / MINUTE:.0f} min"
    hours, minutes = divmod(round(seconds / MINUTE), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def bytes_in_words(count: float) -> str:
    """A number of bytes as people say it: `812 B`, `2.9 MB`, `134.3 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def seconds_left(seconds: Sequence[float], left: int) -> float:
    """The mean of the last rounds' seconds, of one at least, times the rounds left."""
    recent = list(seconds)[-RECENT:]
    return sum(recent) / len(recent) * left


def left_text(seconds: float, *, stages_follow: int = 0) -> str:
    """What is left of a stage; where others follow, it says that it is the stage alone."""
    return f"about {in_words(seconds)} left" + (" of the stage" if stages_follow else "")


@dataclass
class Question:
    """A request under way: how many answers there are, and what is done of those that are not there yet.

    Attributes:
        what: what is asked, in words.
        total: of how many clients.
        clock: of seconds.
        under_way: what is done of answers that are being made, summed over them: two halves are 1.
        done: how many answers there are.
    """

    what: str
    total: int
    clock: Clock
    under_way: Callable[[], float] = nothing_under_way
    done: int = 0
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def answered(self) -> None:
        """One more answer is there."""
        self.done += 1

    @property
    def elapsed(self) -> float:
        """Seconds since it was asked."""
        return self.clock() - self._since

    @property
    def share(self) -> float:
        """What is done of it, 0 to 1."""
        return min((self.done + self.under_way()) / max(self.total, 1), 1.0)

    @property
    def text(self) -> str:
        """How far it is."""
        done = f"{self.done} of {self.total} clients done"
        return f"{self.what}, {done} ({100 * self.share:.0f} %), {in_words(self.elapsed)} so far"


class Progress:
    """Shows a run's stages, rounds and requests to the user.

    Args:
        console: where.
        clock: of seconds.

    Within `with`, a thread looks every second whether a line is due; without, nothing is said between calls.
    """

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._spoken = self._ended_at = clock()  # when the last line was printed, and the last piece done
        self._name, self._note = "", ""
        self._rounds, self._stages_follow = False, 0
        self._task: Task | None = None
        self._question: Question | None = None
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            get_time=clock,
            speed_estimate_period=DAY,
            transient=True,
            disable=not console.is_interactive or console.quiet,
        )
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, key: str, place: int, stages: int, details: Sequence[str]) -> None:
        """Say that a stage begins, or was done before: `stage 1 of 4: federate, 10 rounds, 5 clients`."""
        self._take_away()
        self._name, self._stages_follow, self._ended_at = key, stages - place, self._clock()
        self.log(f"stage {place} of {stages}: {', '.join(details)}")

    def begin(self, name: str, total: int, done: int = 0, *, rounds: bool = True) -> None:
        """Show that `total` rounds, or pieces of other work that are alike, begin; some were done before."""
        self._take_away()
        self._name, self._rounds, self._ended_at = name, rounds, self._clock()
        number = self._bars.add_task(on_one_line(name), total=total, completed=done, note="")
        self._task = next(task for task in self._bars.tasks if task.id == number)
        self._bars.advance(number, 0)
        self._bars.start()

    def advance(self, done: int, note: str | None = None) -> None:
        """Show that so many are done now; with a note, a plain log gets a line of it."""
        assert self._task is not None, "begin comes first"
        self._ended_at = self._clock()
        self._bars.update(self._task.id, completed=done)
        if note is None:
            return
        self._note = note
        self._show(note)
        if self._bars.disable:
            self.log(self._line())

    def end(self) -> None:
        """The rounds are over; on a terminal the last of them stays to be read."""
        last = self._line() if self._task is not None and self._note and not self._bars.disable else ""
        self._take_away()
        if last:
            self.log(last)

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, of which each one that was gone through counts as one more done."""
        for item in items:
            yield item
            if self._task is not None:
                self.advance(int(self._task.completed) + 1)

    @contextmanager
    def request(
        self, what: str, total: int, under_way: Callable[[], float] = nothing_under_way
    ) -> Iterator[Question]:
        """Show a request to `total` clients while it lasts."""
        self._question = Question(what, total, self._clock, under_way)
        try:
            yield self._question
        finally:
            self._question = None
            self._show(self._note)

    def log(self, text: str) -> None:
        """Print one line."""
        self._spoken = self._clock()
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def look(self) -> None:
        """Show what goes on now; a plain log gets a line of it if it got none for a while."""
        if self._task is not None and not self._bars.disable:
            self._show(self._question.text if self._question is not None else self._note)
        elif (text := self.now) and self._clock() - self._spoken >= EVERY:
            self.log(text)

    @property
    def now(self) -> str:
        """What goes on at this moment, in one line; empty where nothing does."""
        task, request = self._task, self._question
        if request is None and not self._name:
            return ""
        if task is not None and not self._rounds and request is None:
            return f"{self._name}: {task.completed:.0f} of {task.total:.0f}{self._left}"
        place = "" if task is None else f" {min(task.completed + 1, task.total or 0):.0f}/{task.total:.0f}"
        text = f"{in_words(self._clock() - self._ended_at)} so far" if request is None else request.text
        return f"{self._name}{place}: {text}{self._left}" if self._name else text

    @property
    def _left(self) -> str:
        if self._task is None or self._task.finished or self._task.time_remaining is None:
            return ""
        return f"; {left_text(self._task.time_remaining, stages_follow=self._stages_follow)}"

    def _line(self) -> str:
        assert self._task is not None
        return f"{self._name} {self._task.completed:.0f}/{self._task.total:.0f} {self._note}{self._left}"

    def _show(self, note: str) -> None:
        if self._task is not None:
            self._bars.update(self._task.id, note=on_one_line(note))

    def _take_away(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task.id)
            self._bars.stop()
        self._task, self._note = None, ""

    def close(self) -> None:
        """Take away what is shown in place, and say no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.end()

    def __enter__(self) -> "Progress":
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *of_error: object) -> None:
        self.close()

    def _keep_looking(self) -> None:
        while not self._ended.wait(LOOK):
            self.look()


@dataclass
class Advance:
    """Counts items that are done, for the user.

    Attributes:
        progress: what shows them.
        done: how many.
    """

    progress: Progress
    done: int = 0

    def __call__(self, more: int) -> None:
        """So many more are done."""
        self.done += more
        self.progress.advance(self.done)


@contextmanager
def counting(
    what: str, total: int, console: Console | None = None, clock: Clock = time.monotonic
) -> Iterator[Advance]:
    """Yield what to call with how many more items are done; shown on standard error.

    What is done before a line is due is not spoken of.
    """
    with Progress(console or Console(stderr=True), clock) as progress:
        progress.begin(what, total, rounds=False)
        yield Advance(progress)

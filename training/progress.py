"""What whoever waits is told: how far a long piece of work is, and how long the rest of it takes.

On a terminal it is shown in place, elsewhere as a line now and then, always on the console's own stream
(standard error), never among results. Nothing of it is logged in `metrics.jsonl`, and nothing depends on it.

What is left is the mean of the seconds of the last rounds (up to `RECENT`) times the rounds that are left; of
pieces of work that are many and alike, the mean of all. Rounds that precede a resume are not counted: they
may be of another machine. Before the first round has ended it is "at least": what it will have
taken by the end of the question under way, once for every round.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from training.plain_text import on_one_line, printable

RECENT = 5  # rounds whose mean seconds an estimate rests on
EVERY = 15.0  # seconds without a line after which a plain log gets one
LOOK = 1.0  # seconds between two looks at whether one is due
EARLIEST, SOONEST = 0.05, 5.0  # the share of a question, and its seconds, before which its length is not told
BAR = 20  # columns
MINUTE, HOUR = 60, 3600

Clock = Callable[[], float]
Watch = Callable[[float], None]  # takes the share of a client's work that is done, 0 to 1
Item = TypeVar("Item")


def unwatched(share: float) -> None:
    """Stands in for a `Watch` where nobody waits."""


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


def left_text(seconds: float, *, surely_more: bool = False, stages_follow: int = 0) -> str:
    """What is left of a stage, and of its run as far as that can be told.

    Args:
        seconds: of the stage.
        surely_more: whether that is all that can be told of it, and it will take longer.
        stages_follow: how many stages follow, of which nothing is known yet.
    """
    words = in_words(seconds)
    if surely_more:
        return f"at least {words} left"
    if stages_follow:
        return f"about {words} left of the stage, at least {words} of the run"
    return f"about {words} left"


@dataclass
class Count:
    """Pieces of work, some of them done, and how long they took.

    Attributes:
        total, done: how many.
        clock: of seconds.
        rounds: whether they are few, and differ: then the last ones tell how long the next ones take.
    """

    total: int
    done: int
    clock: Clock
    rounds: bool = True
    _ends: list[tuple[float, int]] = field(init=False)  # when so many were done; the first is the beginning

    def __post_init__(self) -> None:
        self._ends = [(self.clock(), self.done)]

    def advance(self, done: int) -> None:
        """So many are done now."""
        if self.rounds:
            self._ends = [*self._ends[-RECENT:], (self.clock(), done)]
        else:
            self._ends = [self._ends[0], (self.clock(), done)]
        self.done = done

    @property
    def elapsed(self) -> float:
        """Seconds since the last piece was done."""
        return self.clock() - self._ends[-1][0]

    @property
    def left(self) -> float | None:
        """Seconds until all are done; None before the first is."""
        (began, before), (ended, after) = self._ends[0], self._ends[-1]
        if after <= before:
            return None
        return max((ended - began) / (after - before) * (self.total - self.done) - self.elapsed, 0)


@dataclass
class Question:
    """A question under way: how many answers there are, and what is done of those that are not there yet.

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
    def seconds(self) -> float | None:
        """How long all of it will take; None where that cannot be told yet."""
        told = self.share >= EARLIEST and self.elapsed >= SOONEST
        return self.elapsed / self.share if told else None

    @property
    def text(self) -> str:
        """How far it is."""
        done = f"{self.done} of {self.total} clients done"
        return f"{self.what}, {done} ({100 * self.share:.0f} %), {in_words(self.elapsed)} so far"


class Progress:
    """Shows a run's stages, rounds and questions to whoever waits.

    Args:
        console: where.
        clock: of seconds.

    Within `with`, a thread looks every second whether a line is due; without, nothing is said between calls.
    """

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._spoken = self._begun = clock()
        self._name = ""
        self._stages_follow = 0
        self._count: Count | None = None
        self._question: Question | None = None
        self._note = ""
        self._live: Live | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def stage(self, key: str, place: int, stages: int, details: Sequence[str]) -> None:
        """Say that a stage begins, or was done before: `stage 1 of 4: federate, 10 rounds, 5 clients`."""
        self._name, self._count, self._note = key, None, ""
        self._stages_follow, self._begun = stages - place, self._clock()
        self.log(f"stage {place} of {stages}: {', '.join(details)}")
        self._show()

    def begin(self, name: str, total: int, done: int = 0, *, rounds: bool = True) -> None:
        """Show that `total` rounds, or pieces of other work that are alike, begin; some were done before."""
        self._name, self._note = name, ""
        self._count = Count(total, done, self._clock, rounds)
        self._show()

    def advance(self, done: int, note: str | None = None) -> None:
        """Show that so many are done now; with a note, a plain log gets a line of it."""
        assert self._count is not None, "begin comes first"
        self._count.advance(done)
        if note is None:
            return
        self._note = note
        if self._live is None:
            self.log(self._line())

    def end(self) -> None:
        """The rounds are over; on a terminal the last of them stays to be read."""
        if self._live is not None and self._count is not None and self._note:
            self.log(self._line())
        self._count, self._note = None, ""

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, of which each one that was gone through counts as one more done."""
        for item in items:
            yield item
            if self._count is not None:
                self.advance(self._count.done + 1)

    @contextmanager
    def question(
        self, what: str, total: int, under_way: Callable[[], float] = nothing_under_way
    ) -> Iterator[Question]:
        """Show a question to `total` clients while it lasts."""
        self._question = Question(what, total, self._clock, under_way)
        try:
            yield self._question
        finally:
            self._question = None

    def log(self, text: str) -> None:
        """Print one line."""
        self._spoken = self._clock()
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def look(self) -> None:
        """Print a line if nothing was printed for a while, and something goes on."""
        if self._live is None and (text := self.now) and self._clock() - self._spoken >= EVERY:
            self.log(text)

    @property
    def now(self) -> str:
        """What goes on at this moment, in one line; empty where nothing does."""
        name, count, question, left = self._name, self._count, self._question, self._left
        if count is not None and not count.rounds and question is None:
            text = f"{name}: {count.done} of {count.total}"
        else:
            elapsed = self._clock() - self._begun if count is None else count.elapsed
            under_way = f"{in_words(elapsed)} so far" if question is None else question.text
            place = "" if count is None else f" {min(count.done + 1, count.total)}/{count.total}"
            text = f"{name}{place}: {under_way}" if name else "" if question is None else question.text
        return f"{text}; {left}" if left else text

    @property
    def _left(self) -> str:
        count, question = self._count, self._question
        if count is None or count.done >= count.total:
            return ""
        if count.left is not None:
            return left_text(count.left, stages_follow=self._stages_follow)
        whole = None if question is None or not count.rounds else question.seconds
        if question is None or whole is None:
            return ""
        rest = max(whole - question.elapsed, 0)
        rounds_after = count.total - count.done - 1
        return left_text(rest + (count.elapsed + rest) * rounds_after, surely_more=True)

    def _line(self) -> str:
        assert self._count is not None
        left = self._left
        return f"{self._name} {self._count.done}/{self._count.total} {self._note}" + (
            f"; {left}" if left else ""
        )

    def _show(self) -> None:
        if self._live is None and self._console.is_terminal and not self._console.quiet:
            self._live = Live(
                console=self._console, get_renderable=self._render, refresh_per_second=2, transient=True
            )
            self._live.start()

    def _render(self) -> RenderableType:
        count, question = self._count, self._question
        rows = Table.grid(padding=(0, 1))
        if count is not None:
            bar = ProgressBar(total=count.total, completed=count.done, width=BAR)
            rows.add_row(Text(on_one_line(self._name)), bar, f"{count.done}/{count.total}", Text(self._left))
        else:
            rows.add_row(Text(on_one_line(self._name)))
        beneath = [Text(on_one_line(question.text))] if question is not None else []
        return Group(rows, *([Text(printable(self._note))] if self._note else []), *beneath)

    def close(self) -> None:
        """Take away what is shown in place, and say no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.end()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:  # refreshes itself
            return self
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
    """Counts items that are done, for whoever waits.

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

"""Progress of a long task: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_EVERY = 10.0  # seconds between plain lines; a job that is shorter says nothing


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of items done; progress goes to standard error."""
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.advance(task, count)
        return
    done = 0
    spoken = time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, spoken
        done += count
        if time.monotonic() - spoken >= _EVERY:
            spoken = time.monotonic()
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    yield advance

"""Where the time goes: functions are wrapped in clocks while they are watched."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Watched:
    """A function to watch: an attribute of a module or class, and under which label its time is booked."""

    label: str
    owner: Any
    name: str


class Stopwatch:
    """Own time by label: what a watched function spends inside another watched one is booked there alone.

    So the labels add up to the time of the outermost watched function.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._inner: list[float] = []  # for each watched call in progress, the time of those within it

    @contextmanager
    def watching(self, functions: Sequence[Watched]) -> Iterator["Stopwatch"]:
        """Clocks around `functions`, taken away at the end."""
        with ExitStack() as stack:
            for one in functions:
                timed = self.timed(one.label, getattr(one.owner, one.name))
                stack.enter_context(patch.object(one.owner, one.name, timed))
            yield self

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with a clock around it."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            started = perf_counter()
            self._inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                elapsed = perf_counter() - started
                self.seconds[label] += elapsed - self._inner.pop()
                self.calls[label] += 1
                if self._inner:
                    self._inner[-1] += elapsed

        return call

"""Concurrent requests for several pictures, with the answers in order."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@contextmanager
def in_order(
    ask: Callable[[Asked], Answer], items: Sequence[Asked], jobs: int
) -> Iterator[Iterator[tuple[Asked, Callable[[], Answer]]]]:
    """Yield each item, in order, with a function that waits for its answer, or raises what `ask` raised.

    Args:
        ask: called in one of `jobs` threads.
        items: asked about in this order.
        jobs: how many at once.

    One slow answer does not stop the others: as many again may be asked about before it is taken. With one
    job, an item is asked about when the one before was taken. On leaving early, what was not yet begun is
    not asked about.
    """
    with ThreadPoolExecutor(min(jobs, max(1, len(items)))) as threads:
        try:
            yield _taken(threads, ask, items, 2 * jobs - 1)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _taken(
    threads: ThreadPoolExecutor, ask: Callable[[Asked], Answer], items: Sequence[Asked], ahead: int
) -> Iterator[tuple[Asked, Callable[[], Answer]]]:
    waiting: deque[tuple[Asked, Future[Answer]]] = deque()
    for item in items:
        waiting.append((item, threads.submit(ask, item)))
        if len(waiting) == ahead:
            first, answer = waiting.popleft()
            yield first, answer.result
    for item, answer in waiting:
        yield item, answer.result

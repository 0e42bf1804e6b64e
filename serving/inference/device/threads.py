"""How many threads a picture that is alone is worth: the fewest that were not clearly beaten by more.

More threads are clearly better only where they win nearly every one of a few rounds, in each of which both
take their turn right after the other: on a busy machine a single time says little, and a thread too many
takes a core from decoding. So noise keeps few threads. Rounds end as soon as they are decided.
"""

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

WINS: Final = 6
"""Rounds that more threads have to win; equal ones win 6 before they lose 2 once in sixteen."""

LOSSES: Final = 2
"""Rounds that they may not lose."""

MARGIN: Final = 0.9
"""A round is won in at most this share of the time that fewer threads took."""

Runner = TypeVar("Runner")


def candidates(most: int) -> Iterator[int]:
    """The numbers of threads beyond one that are tried: 2, 4, 8 and so on, and the most."""
    number = 2
    while number < most:
        yield number
        number *= 2
    if most > 1:
        yield most


def clearly_faster(
    more: Callable[[], object], fewer: Callable[[], object], clock: Callable[[], float] = perf_counter
) -> bool:
    """Whether one piece of work is faster than another by more than the margin, in nearly all rounds.

    Args:
        more: the one that has to prove it.
        fewer: the other.
        clock: seconds.
    """
    wins = losses = 0
    while wins < WINS and losses < LOSSES:
        if (wins + losses) % 2:  # who comes first changes
            ours, theirs = _seconds(more, clock), _seconds(fewer, clock)
        else:
            theirs, ours = _seconds(fewer, clock), _seconds(more, clock)
        if ours <= MARGIN * theirs:
            wins += 1
        else:
            losses += 1
    return wins >= WINS


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def fewest_threads(
    most: int,
    one: Runner,
    with_threads: Callable[[int], Runner],
    run: Callable[[Runner], object],
    clock: Callable[[], float] = perf_counter,
) -> tuple[int, Runner]:
    """The number of threads that is worth it, and what runs with them.

    Args:
        most: the largest number.
        one: what runs on one thread.
        with_threads: makes what runs on so many.
        run: runs it once.
        clock: seconds.
    """
    chosen, number = one, 1
    run(chosen)
    for threads in candidates(most):
        challenger = with_threads(threads)
        run(challenger)  # the first run of each is slower than all others
        if clearly_faster(partial(run, challenger), partial(run, chosen), clock):
            chosen, number = challenger, threads
    return number, chosen

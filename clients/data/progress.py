"""Progress of a long task: a bar on a terminal, a plain line now and then elsewhere."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from training.progress import counting


def progress(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Yields a function to call with the number of items done; progress goes to standard error."""
    return counting(what, total)

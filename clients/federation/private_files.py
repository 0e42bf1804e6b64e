"""Files that nobody but their owner reads or writes: decoded pictures, states, logs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

OTHERS = 0o077  # what nobody else may do with a file that a node makes


@contextmanager
def private_files() -> Iterator[None]:
    """Whatever this process makes meanwhile is for its own user alone."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)

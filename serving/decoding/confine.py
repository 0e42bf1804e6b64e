"""Takes from this process all that decoding does not need; there is no way back."""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from registry.confined import limit

_PDEATHSIG, _NO_NEW_PRIVILEGES = 1, 38  # of prctl
_MOST_OPEN: Final = 4096  # the lowest free one is always taken, and a template has a handful
_PAGES: Final = Path("/proc/self/statm")

_libc: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Ends this process with the one that forked it.

    Args:
        parent: its id, as it was before the fork.
    """
    _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def close_others(kept: int) -> None:
    """Closes every descriptor from `kept` on, and puts an empty file in place of the first three."""
    empty = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(empty, standard)
    os.closerange(kept, _MOST_OPEN)


def confine(memory: int, rules: Any) -> None:
    """Limits memory, files and privileges, and last the system calls.

    Args:
        memory: bytes of address space that may be taken besides what is there.
        rules: a filter of system calls; None where the system has none.
    """
    there = int(_PAGES.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit({"RLIMIT_AS": there + memory, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_NOFILE": 0})
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if rules is not None:
        rules.load()

"""Scheduling priority of threads whose work can wait, below those that answer requests."""

import os
import sys
import threading
from typing import Final

_NICER: Final = 10  # than the rest of the process


def lower_thread_priority() -> None:
    """Lowers the calling thread's priority (nice value), so that it runs where others leave a core idle."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICER)

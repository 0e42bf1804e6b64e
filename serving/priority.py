"""Threads whose work can wait: they get what the threads that answer leave over."""

import os
import sys
import threading
from typing import Final

_NICER: Final = 10  # than the rest of the process


def yield_to_others() -> None:
    """Lets the calling thread run where the process's others leave a core idle."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICER)

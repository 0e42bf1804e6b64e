"""Ending a process with its parent: a job's with the node, FLARE's own with the command."""

import os
import threading
import time

LOOK_EVERY = 0.5  # seconds


def end_with_parent(parent: int | None = None) -> None:
    """Watch the parent, and end this process at once when the parent ends.

    FLARE lets a job's process finish what it is doing, which may be an hour of training; meanwhile the node
    may have been started again, and two processes would write one client's states. A run is crash-exact, so
    an end at any instant loses nothing but time.

    Args:
        parent: its number, where it may have ended already; by default whoever is the parent now.
    """
    eldest = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == eldest:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()

"""A job's process does not outlive the node that started it."""

import os
import threading
import time

LOOK_EVERY = 0.5  # seconds


def end_with_parent() -> None:
    """End this process, at once, when its parent ends.

    FLARE lets a job's process finish what it is doing, which may be an hour of training; meanwhile the node
    may have been started again, and two processes would write one client's states. A run is crash-exact, so
    an end at any instant loses nothing but time.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()

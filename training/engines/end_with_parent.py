"""A process that ends when the one that started it does, however that ends."""

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """Watch the parent in a thread: one that is killed outright must not leave workers behind."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

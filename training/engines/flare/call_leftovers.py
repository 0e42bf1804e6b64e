"""What FLARE leaves in memory after each call, and its removal.

A message that FLARE sends is held by an object (`TxTask`) that refers to itself by way of its future, with
the message's bytes and a buffer of 1 MiB. Nothing but Python's search for such circles frees it, and with
libraries as large as torch the search comes to the oldest objects after hundreds of calls: until then a
coordinator holds every piece that it has sent, and a mebibyte for each sign of life.

Here the search is done as soon as the leftovers may be `LIMIT` bytes. What was there before the first call
(the libraries) is taken out of it, so that it takes some milliseconds.
"""

import gc
import threading
from collections.abc import Callable

BUFFER_BYTES = 1 << 20  # that FLARE allocates for each message, however short
LIMIT = 16 << 20  # bytes of leftovers before they are searched for


class CallLeftovers:
    """Counts what calls leave behind, and frees it; shared by the channels to all sites.

    Args:
        limit: bytes that may be left.
        free: frees what only refers to itself.
    """

    def __init__(self, limit: int = LIMIT, free: Callable[[], object] = gc.collect) -> None:
        self._limit = limit
        self._free = free
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Note that a call ended that sent `size` bytes; frees what calls left where it is too much."""
        with self._lock:
            self._bytes += size + BUFFER_BYTES
            if self._bytes < self._limit:
                return
            self._bytes = 0
        self._free()


def spare_what_is_here() -> None:
    """Take all that is in memory now out of later searches: libraries stay for good."""
    gc.collect()
    gc.freeze()

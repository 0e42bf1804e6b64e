"""Draining: the time between SIGTERM and the closing of the port, long enough for a load balancer to notice.

Without it the port would close at once. A caller who is just then sending over a connection that was kept
open would find it cut, and could not tell whether to send again.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def draining_on_sigterm(begin: Callable[[], None], seconds: float) -> Iterator[None]:
    """Delays SIGTERM while the block runs: draining begins at once, and the previous handler runs later.

    A second SIGTERM is not held back. Where no signal can be received (a service in a thread, as tests
    have it), nothing is changed.

    Args:
        begin: begins draining; called in the event loop that runs.
        seconds: how much later the handler that was set before gets the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL

    def received(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, before)
        loop.call_soon_threadsafe(begin)
        loop.call_soon_threadsafe(loop.call_later, seconds, signal.raise_signal, signal.SIGTERM)

    signal.signal(signal.SIGTERM, received)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is received:
            signal.signal(signal.SIGTERM, before)

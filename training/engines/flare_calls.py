"""The calls to one site over FLARE's Collab API, each with a time-out, and what they leave behind.

A message that FLARE sends is held by an object (`TxTask`) that refers to itself by way of its future, with
the message's bytes and a buffer of 1 MiB. Nothing but Python's search for such circles frees it, and with
libraries as large as torch the search comes to the oldest objects after hundreds of calls. So it is done as
soon as the leftovers may be `LIMIT` bytes, without what was there before the first call (the libraries).
"""

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.api.proxy import Proxy

from training.engines.calls import ChannelError, SiteRefusedError

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


SHUTTING_DOWN = "shutting down"  # in the error of a site whose process is about to end


@dataclass(frozen=True)
class FlareCall:
    """Calls a site's methods over FLARE, see `training.engines.calls.Channel`.

    FLARE lets a hospital that is disabled register no more, but knows nothing of a job that runs: what its
    process there still says comes through until the job ends. So each call looks before and after. To the
    engine a site that is refused is one that is offline, until it is refused no longer.

    Attributes:
        proxy: of the site.
        context: of the coordinator's main function; FLARE keeps it by thread, and calls come from several.
        leftovers: frees what FLARE leaves of each call; shared by all sites.
        over: ends the calls that are under way when it is triggered; one whose answer was lost would
            otherwise keep FLARE's job from ending until its time-out.
        refuse: raises `ChannelError` while the site is disabled.
    """

    proxy: Proxy
    context: Context
    leftovers: CallLeftovers
    over: Signal
    refuse: Callable[[], None]

    def __post_init__(self) -> None:
        self.proxy.backend.abort_signal = self.over

    def __call__(self, method: str, seconds: float, **arguments: Any) -> Any:
        """Call a method at the site.

        Raises:
            ChannelError: the site was not reached in time, or is disabled.
            SiteRefusedError: it was reached, and failed.
        """
        self.refuse()
        set_call_context(self.context)
        try:
            result = getattr(self.proxy(timeout=seconds), method)(**arguments)
        except RunAborted as error:
            raise ChannelError(f"{self.proxy.name}: the run was ended") from error
        except CollabCallError as error:
            # A site that was reached and failed gives the type of its error; other causes are the network's.
            reached = error.remote_traceback is not None
            if reached and SHUTTING_DOWN not in f"{error.cause}":
                raise SiteRefusedError(f"{error.cause}") from error
            raise ChannelError(f"{self.proxy.name} was not reached: {error.cause}") from error
        finally:
            self.leftovers.add(sum(len(value) for value in arguments.values() if isinstance(value, bytes)))
        self.refuse()
        return result

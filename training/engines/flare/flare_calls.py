"""The calls to one site over FLARE's Collab API, each with a time-out, and what they leave behind.

A message that FLARE sends is held by an object (`TxTask`) that refers to itself by way of its future, with
the message's bytes and a buffer of 1 MiB. Nothing but Python's search for such circles frees it, and with
libraries as large as torch the search comes to the oldest objects after hundreds of calls. So it is done as
soon as the leftovers may be `LIMIT` bytes, without what was there before the first call (the libraries).
"""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore
from typing import Any

from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.api.proxy import Proxy

from training.engines.flare.calls import (
    LONGEST,
    ChannelError,
    ChunkedTransfer,
    Heartbeat,
    SiteRefusedError,
    raise_refusal,
)
from training.engines.flare.wire import Payload

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


HANDSHAKE, REGISTER, JOIN, PING = "handshake", "register", "join", "ping"
PUT, ANSWER, FETCH = "put", "answer", "fetch"
SHUTTING_DOWN = "shutting down"  # in the error of a site whose process is about to end


class FlareChannel:
    """A channel to a site over FLARE; implements `Channel` and `ChunkChannel`.

    Args:
        proxy: of the site.
        context: of the coordinator's main function; FLARE keeps it by thread, and calls come from several.
        folder, heartbeat_timeout, in_flight: see `training.engines.flare.calls.ChunkedTransfer`.
        leftovers: frees what FLARE leaves of each call; shared by all sites.
        over: ends the calls that are under way when it is triggered; one whose answer was lost would
            otherwise keep FLARE's job from ending until its time-out.
        model_bytes: see `training.engines.flare.calls.ChunkedTransfer`.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: Context,
        folder: Path,
        heartbeat_timeout: float,
        in_flight: Semaphore,
        leftovers: CallLeftovers,
        over: Signal,
        model_bytes: Callable[[], int] = lambda: LONGEST,
    ) -> None:
        self._proxy = proxy
        proxy.backend.abort_signal = over
        self._context = context
        self._leftovers = leftovers
        self._transfer = ChunkedTransfer(
            proxy.name, self, folder, heartbeat_timeout, in_flight, model_bytes=model_bytes
        )

    def handshake(self, handshake: str, seconds: float) -> str:
        """See `Channel`."""
        return self._text(HANDSHAKE, seconds, handshake=handshake)

    def register(self, seconds: float) -> str:
        """See `Channel`."""
        return self._text(REGISTER, seconds)

    def join(self, roster: str, seconds: float) -> str:
        """See `Channel`."""
        return self._text(JOIN, seconds, roster=roster)

    def ask(
        self, header: str, payload: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """See `Channel`."""
        return self._transfer.ask(header, payload, seconds, alive)

    def put(self, address: str, chunk: bytes, seconds: float) -> int:
        """See `ChunkChannel`."""
        held = self._call(PUT, seconds, place=address, piece=chunk)
        if isinstance(held, str):
            raise_refusal(held)
        if not isinstance(held, int):
            raise SiteRefusedError(f"{self._proxy.name} answered {type(held).__name__}, and no number")
        return held

    def fetch(self, address: str, seconds: float) -> bytes:
        """See `ChunkChannel`."""
        chunk = self._call(FETCH, seconds, place=address)
        if isinstance(chunk, str):
            raise_refusal(chunk)
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise SiteRefusedError(f"{self._proxy.name} answered {type(chunk).__name__}, and no bytes")
        return bytes(chunk)

    def answer(self, header: str, payload: bytes, size: int, seconds: float) -> tuple[str, bytes, int]:
        """See `ChunkChannel`."""
        result = self._call(ANSWER, seconds, header=header, body=payload, size=size)
        if isinstance(result, str):
            raise_refusal(result)
        match result:
            case [str(head), bytes() | bytearray() | memoryview() as first, int(whole)]:
                return head, bytes(first), whole
        raise SiteRefusedError(f"{self._proxy.name} answered something that is no message")

    def ping(self, seconds: float) -> Heartbeat:
        """See `Channel`."""
        text = self._text(PING, seconds)
        raise_refusal(text)
        try:
            return Heartbeat.model_validate_json(text)
        except ValueError as error:
            raise SiteRefusedError(f"{self._proxy.name} gave no heartbeat but {text[:80]!r}") from error

    def _text(self, method: str, seconds: float, **arguments: Any) -> str:
        result = self._call(method, seconds, **arguments)
        if not isinstance(result, str):
            raise SiteRefusedError(f"{self._proxy.name} answered {type(result).__name__}, and no text")
        return result

    def _call(self, method: str, seconds: float, **arguments: Any) -> Any:
        set_call_context(self._context)
        try:
            return getattr(self._proxy(timeout=seconds), method)(**arguments)
        except RunAborted as error:
            raise ChannelError(f"{self._proxy.name}: the run was ended") from error
        except CollabCallError as error:
            # A site that was reached and failed gives the type of its error; other causes are the network's.
            reached = error.remote_traceback is not None
            if reached and SHUTTING_DOWN not in f"{error.cause}":
                raise SiteRefusedError(f"{error.cause}") from error
            raise ChannelError(f"{self._proxy.name} was not reached: {error.cause}") from error
        finally:
            self._leftovers.add(sum(len(value) for value in arguments.values() if isinstance(value, bytes)))

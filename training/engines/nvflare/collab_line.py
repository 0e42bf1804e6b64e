"""One site as FLARE's Collab API reaches it: a call of one of its published methods, with a time-out."""

from collections.abc import Callable
from pathlib import Path
from threading import Semaphore
from typing import Any

from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.api.proxy import Proxy

from training.body import Body
from training.engines.nvflare.lines import LineError, SiteRefusedError
from training.engines.nvflare.pieces import InPieces
from training.engines.nvflare.pulse import Pulse

GREET, INTRODUCE, JOIN, PING = "greet", "introduce", "join", "ping"
PUT, ANSWER, FETCH = "put", "answer", "fetch"
SHUTTING_DOWN = "shutting down"  # what a site says whose process is about to end


class CollabLine:
    """A line to a site; implements `training.engines.nvflare.lines.Line`.

    Args:
        proxy: of the site.
        context: of the coordinator's main function; FLARE keeps it by thread, and calls come from several.
        folder, silence, moving: see `training.engines.nvflare.pieces.InPieces`.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: Context,
        folder: Path,
        silence: float,
        moving: Semaphore,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._pieces = InPieces(proxy.name, self, folder, silence, moving)

    def greet(self, greeting: str, seconds: float) -> str:
        """See `Line`."""
        return self._text(GREET, seconds, greeting=greeting)

    def introduce(self, seconds: float) -> str:
        """See `Line`."""
        return self._text(INTRODUCE, seconds)

    def join(self, roster: str, seconds: float) -> str:
        """See `Line`."""
        return self._text(JOIN, seconds, roster=roster)

    def ask(self, header: str, body: Body, seconds: float, alive: Callable[[], None]) -> tuple[str, Body]:
        """See `Line`."""
        return self._pieces.ask(header, body, seconds, alive)

    def put(self, place: str, piece: bytes, seconds: float) -> int:
        """See `Carrier`."""
        held = self._call(PUT, seconds, place=place, piece=piece)
        if not isinstance(held, int):
            raise SiteRefusedError(f"{self._proxy.name} answered {type(held).__name__}, and no number")
        return held

    def fetch(self, place: str, seconds: float) -> bytes:
        """See `Carrier`."""
        piece = self._call(FETCH, seconds, place=place)
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise SiteRefusedError(f"{self._proxy.name} answered {type(piece).__name__}, and no bytes")
        return bytes(piece)

    def answer(self, header: str, body: bytes, size: int, seconds: float) -> tuple[str, bytes, int]:
        """See `Carrier`."""
        result = self._call(ANSWER, seconds, header=header, body=body, size=size)
        match result:
            case [str(head), bytes() | bytearray() | memoryview() as first, int(whole)]:
                return head, bytes(first), whole
        raise SiteRefusedError(f"{self._proxy.name} answered something that is no message")

    def ping(self, seconds: float) -> Pulse:
        """See `Line`."""
        told = self._text(PING, seconds)
        try:
            return Pulse.model_validate_json(told)
        except ValueError as error:
            raise SiteRefusedError(f"{self._proxy.name} gave no sign of life but {told[:80]!r}") from error

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
            raise LineError(f"{self._proxy.name}: the run was ended") from error
        except CollabCallError as error:
            # A site that was reached and failed tells the type of its error; other causes are the network's.
            reached = error.remote_traceback is not None
            if reached and SHUTTING_DOWN not in f"{error.cause}":
                raise SiteRefusedError(f"{error.cause}") from error
            raise LineError(f"{self._proxy.name} was not reached: {error.cause}") from error

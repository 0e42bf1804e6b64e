"""One site as FLARE's Collab API reaches it: a call of one of its published methods, with a time-out."""

from typing import Any

from nvflare.collab.api.context import Context, set_call_context
from nvflare.collab.api.exceptions import CollabCallError, RunAborted
from nvflare.collab.api.proxy import Proxy

from training.engines.nvflare.lines import LineError, SiteRefusedError
from training.engines.nvflare.pulse import Pulse

GREET, INTRODUCE, JOIN, ASK, PING = "greet", "introduce", "join", "answer", "ping"
SHUTTING_DOWN = "shutting down"  # what a site says whose process is about to end


class CollabLine:
    """A line to a site; implements `training.engines.nvflare.lines.Line`.

    Args:
        proxy: of the site.
        context: of the coordinator's main function; FLARE keeps it by thread, and calls come from several.
    """

    def __init__(self, proxy: Proxy, context: Context) -> None:
        self._proxy = proxy
        self._context = context

    def greet(self, greeting: str, seconds: float) -> str:
        """See `Line`."""
        return self._text(GREET, seconds, greeting=greeting)

    def introduce(self, seconds: float) -> str:
        """See `Line`."""
        return self._text(INTRODUCE, seconds)

    def join(self, roster: str, seconds: float) -> str:
        """See `Line`."""
        return self._text(JOIN, seconds, roster=roster)

    def ask(self, header: str, body: bytes, seconds: float) -> tuple[str, bytes]:
        """See `Line`."""
        result = self._call(ASK, seconds, header=header, body=body)
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise SiteRefusedError(f"{self._proxy.name} answered {type(result).__name__}, and no message")
        head, tensors = result
        if not isinstance(head, str) or not isinstance(tensors, bytes | bytearray | memoryview):
            raise SiteRefusedError(f"{self._proxy.name} answered something that is no message")
        return head, bytes(tensors)

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

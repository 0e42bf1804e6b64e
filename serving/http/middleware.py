"""Middleware around every request: its id, its time, its line in the log, and problem documents for failures.

A pure ASGI middleware around all routes. Logged are the request's id, method, path template, status and
time: never a query, a header, a body or a picture's name.
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from serving.http.framing import refuse_two_lengths, refuse_websocket
from serving.http.headers import with_security_headers
from serving.metrics import OTHER, Metrics
from serving.protocol.problems import ProblemResponse, problem_response, status_response

log = logging.getLogger("dermfed.serve")

# What Starlette's routes raise says no more than its status.
_STATUS_DETAILS: Final = {
    404: "there is no such path; /docs lists those there are",
    405: "the path does not take this method; the header Allow names those it takes, and /docs tells more",
}

_CLOSE: Final = (b"connection", b"close")
_LONGEST_METHOD: Final = 20  # a caller may make up one of thousands of letters


class RequestMiddleware:
    """Gives each request an id, times and logs it, and answers every exception with a problem document."""

    def __init__(
        self, app: ASGIApp, routes: Sequence[Route], metrics: Metrics, ending: Callable[[], bool]
    ) -> None:
        """Wraps an application.

        Args:
            app: what answers.
            routes: requests are counted by their path templates.
            metrics: where they are counted.
            ending: whether the service ends; then each answer says that its connection will be closed.
        """
        self._app = app
        self._routes = routes
        self._metrics = metrics
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request; any exception becomes a problem document."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = str(uuid.uuid4())
        if scope["type"] == "websocket":
            refusal = status_response(404, _STATUS_DETAILS[404], request_id, {"X-Request-Id": request_id})
            await WebSocket(scope, receive, send).send_denial_response(refusal)
            return
        scope["state"] = {**scope.get("state", {}), "request_id": request_id, "began": began}
        path = self._path_template(scope)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(b"x-request-id", request_id.encode())]
                rate_limit = scope["state"].get("headers", {}).items()
                added += [(name.lower().encode(), value.encode()) for name, value in rate_limit]
                headers = with_security_headers([*message.get("headers", []), *added])
                if self._ending() and _CLOSE not in headers:
                    headers.append(_CLOSE)
                message["headers"] = headers
            await send(message)

        try:
            refuse_two_lengths(scope)
            refuse_websocket(scope)
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if status:
                raise  # the answer is on its way; it can only be cut off
            response = _response(error, request_id)
            await response(scope, receive, send_with_headers)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request(scope["method"], path, status, seconds)
            method = ascii(scope["method"][:_LONGEST_METHOD])[1:-1]
            log.info("%s %s %s %d %.1f ms", request_id, method, path, status, seconds * 1000)

    def _path_template(self, scope: Scope) -> str:
        matching = (route.path for route in self._routes if route.matches(scope)[0] is not Match.NONE)
        return next(matching, OTHER)


def _response(error: Exception, request_id: str) -> ASGIApp:
    if isinstance(error, ProblemResponse):
        return problem_response(error, request_id)
    if isinstance(error, HTTPException):
        detail = _STATUS_DETAILS.get(error.status_code, str(error.detail))
        return status_response(error.status_code, detail, request_id, error.headers)
    log.error("%s failed", request_id, exc_info=error)
    return problem_response(
        ProblemResponse(
            "the service failed; tell whoever runs it the request_id, under which its log says why"
        ),
        request_id,
    )


def request_id(request: Request) -> str:
    """The id that the middleware gave a request."""
    return str(request.state.request_id)

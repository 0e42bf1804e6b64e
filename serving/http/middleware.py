"""Around every request: its id, time and line in the log, problem documents for failures, security headers.

A pure ASGI middleware around all routes. Logged are the request's id, method, path template, status and time,
and the two headers by which a caller finds a request again (`X-Request-Id`, and `traceparent` of W3C Trace
Context): never a query, another header, a body or a picture's name. A caller's id is shown to that caller
alone: a diagnosis is found by our own.

Nothing may be loaded, framed, cached or sniffed. An answer brings its own `Content-Security-Policy` where it
is a page: `PAGE_POLICY` for pages whose style sheets and scripts are files of ours, `PICTURE_POLICY` for the
one among them that answers, `policy_for` for those that hold their style sheet themselves.
"""

import base64
import hashlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

import anyio
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.metrics import OTHER, Metrics
from serving.protocol.negotiation import FHIR, operation_outcome, prefers_fhir
from serving.protocol.problems import (
    DeadlinePassed,
    NotAcceptable,
    ProblemResponse,
    problem_response,
    status_problem,
)
from serving.web.rendering import MOUNTED_AT

POLICY: Final = "Content-Security-Policy"

ANSWER_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The content security policy of whatever is no page."""

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy of pages: files of our own, and the picture that the browser holds itself."""

PICTURE_POLICY: Final = PAGE_POLICY.replace("blob:", "blob: data:")
"""That of the page which answers: the pictures in it, as the model saw them, and their maps lie within it."""

HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),  # for browsers that do not know frame-ancestors
    (b"referrer-policy", b"same-origin"),  # no-referrer would make our own form's Origin `null`
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def policy_for(page: str) -> str:
    """The content security policy of a page whose style sheets are inline: it allows them by their hashes."""
    hashes = " ".join(f"'sha256-{_digest(style)}'" for style in _STYLE.findall(page))
    return f"{ANSWER_POLICY}; style-src {hashes}" if hashes else ANSWER_POLICY


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response with every security header that it does not set itself."""
    given = list(headers)
    named = {name.lower() for name, _ in given}
    added = (*HEADERS, (POLICY.lower().encode(), ANSWER_POLICY.encode()))
    return [*given, *(field for field in added if field[0] not in named)]


@lru_cache(maxsize=16)
def _digest(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


log = logging.getLogger("dermfed.serve")

# What Starlette's routes raise says no more than its status.
_STATUS_DETAILS: Final = {
    404: "there is no such path; /docs lists those there are",
    405: "the path does not take this method; the header Allow names those it takes, and /docs tells more",
}

READ_PAST_SECONDS: Final = 10
"""For how long the rest of a body is read and dropped before its request is refused."""

DIAGNOSES: Final = "/v1/diagnoses"
"""The path whose answers may be FHIR."""

_ID: Final = re.compile(r"[A-Za-z0-9._~:+/=@-]{1,128}")
_TRACE: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_CLOSE: Final = (b"connection", b"close")
_LONGEST_METHOD: Final = 20  # a caller may make up one of thousands of letters


class RequestMiddleware:
    """Gives each request an id, times and logs it, and answers every exception with a problem document."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[Route],
        metrics: Metrics,
        ending: Callable[[], bool],
        prefix: str = "",
    ) -> None:
        """Wraps an application.

        Args:
            app: what answers.
            routes: requests are counted by their path templates.
            metrics: where they are counted.
            ending: whether the service ends; then each answer says that its connection will be closed.
            prefix: the path under which the application is, where the server does not say it.
        """
        self._app = app
        self._routes = routes
        self._metrics = metrics
        self._ending = ending
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request; any exception becomes a problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = str(uuid.uuid4())
        sent, trace = _sent(scope, "x-request-id", _ID), _sent(scope, "traceparent", _TRACE)
        shown = sent or request_id
        scope["state"] = {
            **scope.get("state", {}),
            **{"request_id": request_id, "shown_id": shown, "began": began},
        }
        root = scope["root_path"] = scope.get("root_path") or self._prefix
        if root and scope["path"] == root:
            scope["path"] += "/"
        MOUNTED_AT.set(root)
        path = self._path_template(scope)
        status = 0
        unread = True

        async def receive_until_the_end() -> Message:
            nonlocal unread
            message = await receive()
            unread = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(b"x-request-id", shown.encode())]
                if trace:
                    added.append((b"traceparent", trace.encode()))
                rate_limit = scope["state"].get("headers", {}).items()
                added += [(name.lower().encode(), value.encode()) for name, value in rate_limit]
                headers = with_security_headers([*message.get("headers", []), *added])
                if self._ending() and _CLOSE not in headers:
                    headers.append(_CLOSE)
                message["headers"] = headers
            await send(message)

        try:
            await self._app(scope, receive_until_the_end, send_with_headers)
        except Exception as error:
            if status:
                raise  # the answer is on its way; it can only be cut off
            waits_for_us = any(name == b"expect" for name, _ in scope["headers"])
            if not isinstance(error, DeadlinePassed) and not waits_for_us:
                # Most clients lose an answer that comes, and ends the connection, while they are sending.
                with anyio.move_on_after(READ_PAST_SECONDS):
                    while unread:
                        await receive_until_the_end()
            response = _response(error, scope, shown, in_fhir=path == DIAGNOSES)
            await response(scope, receive, send_with_headers)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request(scope["method"], path, status, seconds)
            method = ascii(scope["method"][:_LONGEST_METHOD])[1:-1]
            found_by = (f" request={sent}" if sent else "") + (f" traceparent={trace}" if trace else "")
            log.info("%s %s %s %d %.1f ms%s", request_id, method, path, status, seconds * 1000, found_by)

    def _path_template(self, scope: Scope) -> str:
        matching = (route.path for route in self._routes if route.matches(scope)[0] is not Match.NONE)
        return next(matching, OTHER)


def _sent(scope: Scope, name: str, pattern: re.Pattern[str]) -> str:
    """A header that the caller sent once and in the form that it has to have; else nothing."""
    values = Headers(scope=scope).getlist(name)
    return values[0] if len(values) == 1 and pattern.fullmatch(values[0]) else ""


def _response(error: Exception, scope: Scope, request_id: str, *, in_fhir: bool) -> ASGIApp:
    problem = _as_problem(error, request_id)
    if in_fhir and asks_for_fhir(Request(scope)):
        outcome = operation_outcome(problem)
        return JSONResponse(outcome, problem.status, headers=problem.headers, media_type=FHIR)
    return problem_response(problem, request_id)


def asks_for_fhir(request: Request) -> bool:
    """Whether a problem is to be answered in FHIR; not where the form that is asked for is the problem."""
    try:
        return prefers_fhir(request.headers.getlist("accept"), request.query_params.get("_format"))
    except NotAcceptable:
        return False


def _as_problem(error: Exception, request_id: str) -> ProblemResponse:
    if isinstance(error, ProblemResponse):
        return error
    if isinstance(error, HTTPException):
        detail = _STATUS_DETAILS.get(error.status_code, str(error.detail))
        return status_problem(error.status_code, detail, error.headers)
    log.error("%s failed", request_id, exc_info=error)
    return ProblemResponse(
        "the service failed; tell whoever runs it the request_id, under which its log says why"
    )


def document(answer: BaseModel) -> Response:
    """The response with an answer, which is written as JSON in one step."""
    return Response(answer.model_dump_json(), media_type="application/json")


def request_id(request: Request) -> str:
    """The id that the middleware gave a request: the diagnosis's, whatever its caller calls it."""
    return str(request.state.request_id)


def shown_id(request: Request) -> str:
    """The id that the answer shows: the caller's own `X-Request-Id`, if it sent one."""
    return str(request.state.shown_id)

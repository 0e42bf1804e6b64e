"""What BentoML runs: `dermfed-serve`, or `bentoml serve serving.service:DiagnosisService`.

BentoML supervises the worker processes and owns the socket; every request is answered by our own
routes (`serving.app`). They stand in front of all that BentoML has: its own routes would answer unknown
paths, failures and health checks in other shapes, its tracing takes longer than all we do besides the
picture, and its time-out keeps a timer for each request until it would have rung.
"""

import logging
import os

import bentoml
from bentoml._internal.utils.analytics import usage_stats
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.registry import Registry
from serving.app import build_app
from serving.settings import read_settings

# Nothing goes over the network uninvited. BentoML may have asked itself before this was read.
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")
usage_stats.do_not_track.cache_clear()

# We answer slowly rather than not at all: deadlines are not BentoML's, whose refusals have another shape.
_NO_TIMEOUT = 365 * 24 * 3600

app = build_app(read_settings(), Registry.open)


class FrontDoor:
    """Hands every request to our routes; what is no request goes on to BentoML."""

    def __init__(self, bento: ASGIApp) -> None:
        """Stands before BentoML's application."""
        self._bento = bento

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one event of the application's life."""
        await (self._bento if scope["type"] == "lifespan" else app)(scope, receive, send)


@bentoml.service(
    workers=int(os.environ.get("DERMFED_SERVE_WORKERS", "1")),
    traffic={"timeout": _NO_TIMEOUT, "max_concurrency": None},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
@bentoml.asgi_app(app, path="/")
class DiagnosisService:
    """Diagnoses over HTTP; mounted, so that BentoML starts and ends it with the worker."""

    def __init__(self) -> None:
        """Lets our log through: a line for each request, without a word of what was in it."""
        logging.getLogger("dermfed").setLevel(logging.INFO)
        # It quotes bytes of what is sent; what is wrong with a form is told to its sender.
        logging.getLogger("python_multipart").setLevel(logging.ERROR)


class _BehindTheFrontDoor(type(DiagnosisService)):  # type: ignore[misc]
    """A service whose workers serve `FrontDoor`; a middleware added in BentoML's way stands behind theirs."""

    __slots__ = ()

    def to_asgi(self, is_main: bool = True) -> ASGIApp:
        """What a worker serves."""
        return FrontDoor(super().to_asgi(is_main))


DiagnosisService.__class__ = _BehindTheFrontDoor  # type: ignore[method-assign]

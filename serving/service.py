"""The BentoML service: `dermfed-serve` runs it, or `bentoml serve serving.service:DiagnosisService`.

BentoML supervises the worker processes and owns the socket; every request is answered by our own
routes (`serving.http.app`). They stand in front of all that BentoML has: its own routes would answer unknown
paths, failures and health checks in other shapes, its tracing takes longer than all we do besides the
picture, and its time-out keeps a timer for each request until it would have rung.
"""

import logging
import os
from functools import partial

import bentoml
from bentoml._internal.utils.analytics import usage_stats
from starlette.types import ASGIApp, Receive, Scope, Send

from dermfed.own_names import refuse_foreign

refuse_foreign()

from registry.registry import Registry
from serving.http.app import build_app
from serving.settings import read_settings

# Nothing goes over the network uninvited. BentoML may have asked itself before this was read.
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")
usage_stats.do_not_track.cache_clear()

# We answer slowly rather than not at all: deadlines are not BentoML's, whose refusals have another shape.
_NO_TIMEOUT = 365 * 24 * 3600

settings = read_settings()
app = build_app(settings, partial(Registry.open, identity=settings.registry_id))


class Dispatcher:
    """An ASGI dispatcher: requests go to our own routes, lifespan events to BentoML."""

    def __init__(self, bento: ASGIApp) -> None:
        """Wraps BentoML's application."""
        self._bento = bento

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatches one ASGI connection by its type."""
        await (self._bento if scope["type"] == "lifespan" else app)(scope, receive, send)


@bentoml.service(
    workers=int(os.environ.get("DERMFED_SERVE_WORKERS", "1")),
    traffic={"timeout": _NO_TIMEOUT, "max_concurrency": None},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
@bentoml.asgi_app(app, path="/")
class DiagnosisService:
    """The service that BentoML loads; our application is mounted, so that it lives with the worker."""

    def __init__(self) -> None:
        """Lets our request log through: one line for each request, without its contents."""
        logging.getLogger("dermfed").setLevel(logging.INFO)
        # It quotes bytes of what is sent; what is wrong with a form is reported to its sender.
        logging.getLogger("python_multipart").setLevel(logging.ERROR)


class _DispatchedService(type(DiagnosisService)):  # type: ignore[misc]
    """A service whose workers serve `Dispatcher`; middleware added in BentoML's way comes after it."""

    __slots__ = ()

    def to_asgi(self, is_main: bool = True) -> ASGIApp:
        """The ASGI application that a worker serves."""
        return Dispatcher(super().to_asgi(is_main))


DiagnosisService.__class__ = _DispatchedService  # type: ignore[method-assign]

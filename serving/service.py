"""The service for `bentoml serve serving.service:DiagnosisService`, and for a bento.

By BentoML's public ways alone: our application is mounted, so that it lives with BentoML's worker, and a
middleware stands before BentoML's own routes, which would answer unknown paths, failures and health checks
in other shapes. What BentoML does before a middleware (its tracing, a time-out) stays. `dermfed-serve` has no
part in this; `docs/deployment.md` says what it has that this has not.
"""

import logging
import os
from functools import partial
from typing import Any, cast

import bentoml
from starlette.types import ASGIApp, Receive, Scope, Send

from dermfed.own_names import refuse_foreign

refuse_foreign()

from registry.registry import Registry
from serving.http.app import build_app
from serving.logs import quieten
from serving.settings import read_settings

# Nothing goes over the network uninvited. BentoML asks before this is read: set it where you call `bentoml`.
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")

settings = read_settings()
app = build_app(settings, partial(Registry.open, identity=settings.registry_id))

# BentoML's time-out answers in another shape, and keeps a timer for each request until it would have rung.
_LATER_THAN_OURS = int(settings.deadline_seconds) + 60


class OurRoutesFirst:
    """An ASGI middleware: requests go to our own routes, lifespan events to BentoML's application."""

    def __init__(self, bento: ASGIApp) -> None:
        """Wraps what BentoML has behind its middleware."""
        self._bento = bento

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatches one ASGI connection by its type."""
        await (self._bento if scope["type"] == "lifespan" else app)(scope, receive, send)


@bentoml.service(
    workers=int(os.environ.get("DERMFED_SERVE_WORKERS", "1")),
    traffic={"timeout": _LATER_THAN_OURS, "max_concurrency": None},
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
@bentoml.asgi_app(app, path="/")
class DiagnosisService:
    """The service that BentoML loads."""

    def __init__(self) -> None:
        """Lets our request log through: one line for each request, without its contents."""
        logging.getLogger("dermfed").setLevel(logging.INFO)
        quieten()


cast(Any, DiagnosisService).add_asgi_middleware(OurRoutesFirst)

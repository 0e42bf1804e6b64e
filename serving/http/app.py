"""The ASGI application: every route, the middleware around them, and the start and end of the service."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from serving.admission import Admission
from serving.http import diagnoses, models, outcomes, pages
from serving.http.middleware import RequestMiddleware
from serving.http.openapi import description_routes
from serving.inference.device import Device
from serving.metrics import Metrics
from serving.settings import ServeSettings
from serving.state import running


def build_app(settings: ServeSettings, source: Callable[[], AbstractContextManager[Any]]) -> Starlette:
    """The Starlette application of all endpoints; its lifespan starts and ends the service.

    Args:
        settings: what an operator set.
        source: opens the registry when the application starts.

    Raises:
        DeviceUnusable: models cannot run on the execution provider that the settings name.
    """
    Device.of(settings).require()
    metrics = Metrics()
    admission = Admission(settings.queue, settings.deadline_seconds, metrics)
    api = (diagnoses.ROUTES, models.ROUTES, description_routes(settings), outcomes.ROUTES)
    routes = [route for some in (*api, pages.ROUTES) for route in some]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running(settings, metrics, admission, source) as app.state.service:
            try:
                yield
            finally:
                del app.state.service

    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=("GET", "POST"),
        allow_headers=("Authorization", "Content-Type", "Traceparent", "X-Request-Id"),
        expose_headers=("RateLimit", "RateLimit-Policy", "Retry-After", "Traceparent", "X-Request-Id"),
    )
    app = Starlette(
        routes=routes,
        middleware=[
            *([cors] if settings.cors_origins else []),  # outermost: refusals are for these pages, too
            Middleware(
                RequestMiddleware,
                routes=routes,
                metrics=metrics,
                ending=lambda: admission.draining,
                prefix=settings.prefix,
            ),
        ],
        # RequestMiddleware turns what goes wrong into an answer: let it through.
        exception_handlers={HTTPException: _pass_on},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _pass_on(request: Request, error: Exception) -> Response:
    raise error

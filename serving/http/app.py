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

from serving.http.diagnoses import Diagnoses
from serving.http.middleware import RequestMiddleware
from serving.http.models import Health, ServedModels
from serving.http.openapi import Description
from serving.http.outcomes import Outcomes
from serving.http.pages import AnswerPages, Console, Pages
from serving.settings import ServeSettings
from serving.state import ServiceState


def build_app(settings: ServeSettings, source: Callable[[], AbstractContextManager[Any]]) -> Starlette:
    """The Starlette application of all endpoints; its lifespan starts and ends the service.

    Args:
        settings: what an operator set.
        source: opens the registry when the application starts.
    """
    service = ServiceState(settings)
    diagnoses, outcomes = Diagnoses(service), Outcomes(service)
    endpoints = (
        *(diagnoses, ServedModels(service), Health(service), Description(service)),
        *(outcomes, Pages(service, diagnoses), AnswerPages(service, outcomes), Console(service)),
    )
    routes = [route for endpoint in endpoints for route in endpoint.routes()]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with service.start(source):
            yield

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
                metrics=service.metrics,
                ending=lambda: service.admission.draining,
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

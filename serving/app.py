"""The whole interface as one application: every path, and an answer in one shape for every other."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from serving.endpoints.description import Description
from serving.endpoints.diagnoses import Diagnoses
from serving.endpoints.health import Health
from serving.endpoints.models import ServedModels
from serving.endpoints.pages import Pages
from serving.exchange import Exchange
from serving.running import Running
from serving.settings import ServeSettings


def build_app(settings: ServeSettings, source: Callable[[], AbstractContextManager[Any]]) -> Starlette:
    """The application.

    Args:
        settings: what an operator set.
        source: opens the registry when the application starts.
    """
    running = Running(settings)
    diagnoses = Diagnoses(running)
    endpoints = (
        *(diagnoses, ServedModels(running), Health(running), Description(running)),
        Pages(running, diagnoses),
    )
    routes = [route for endpoint in endpoints for route in endpoint.routes()]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running.start(source):
            yield

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Exchange, routes=routes, metrics=running.metrics)],
        # Exchange turns what goes wrong into an answer: let it through.
        exception_handlers={HTTPException: _pass_on},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _pass_on(request: Request, error: Exception) -> Response:
    raise error

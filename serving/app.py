"""Our own routes: every path of the interface, and an answer in one shape for every other."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from registry.bundle.nearest import nearest
from serving.auth import authorise
from serving.card import card, card_page
from serving.docs_page import docs_page
from serving.exchange import Exchange, request_id
from serving.live import Live, LoadedRelease, Source, State
from serving.metrics import MEDIA_TYPE, Metrics
from serving.openapi import describe
from serving.parameters import read_parameters
from serving.predictor import diagnose
from serving.problems import InvalidParameter, NothingServed, UnknownModel
from serving.routing import choose
from serving.schemas import Models, Readiness, ServedModel, ServedVersion
from serving.settings import ServeSettings
from serving.upload import read_upload

POLL = 0.02
"""How often a waiting request looks whether its release has been loaded; seconds."""


class DiagnosisApp:
    """The endpoints, over what is live."""

    def __init__(self, settings: ServeSettings) -> None:
        """Nothing is read or started before `serve`."""
        self.settings = settings
        self.metrics = Metrics()
        self.api = describe(settings)
        self._live: Live | None = None
        self._working: anyio.CapacityLimiter | None = None

    @asynccontextmanager
    async def serve(self, source: Callable[[], AbstractContextManager[Source]]) -> AsyncIterator[None]:
        """Follows the registry while the service runs."""
        with source() as registry:
            self._working = anyio.CapacityLimiter(self.settings.threads)
            self._live = await anyio.to_thread.run_sync(Live, registry, self.settings)
            try:
                yield
            finally:
                live, self._live = self._live, None
                await anyio.to_thread.run_sync(live.close)

    async def diagnose(self, request: Request) -> Response:
        """`POST /v1/diagnoses`."""
        await self._authorise(request)
        upload = await read_upload(request, self.settings.max_bytes)
        parameters = read_parameters(request.query_params.multi_items(), upload.fields)
        state = await self._state(request)
        served = pick(state, parameters.model or self.settings.default_model)
        routed = choose(served.subgroups, parameters.skin_tone, parameters.skin_tone_scale)
        diagnosis = await anyio.to_thread.run_sync(
            lambda: diagnose(
                served.versions[routed.subgroup],
                upload.content,
                parameters,
                routed.route,
                request_id=request_id(request),
                max_pixels=self.settings.max_pixels,
            ),
            limiter=self._working,
        )
        self.metrics.diagnosis(diagnosis)
        return Response(diagnosis.model_dump_json(), media_type="application/json")

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`."""
        await self._authorise(request)
        state = await self._state(request)
        served = [self._served(one) for one in state.releases.values()]
        return JSONResponse(Models(models=served).model_dump(mode="json"))

    async def card(self, request: Request) -> Response:
        """`GET /v1/models/{name}/card`: JSON, or a page where one is asked for."""
        await self._authorise(request)
        served = pick(await self._state(request), request.path_params["name"])
        shown = card(served, self.settings.alias)
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(card_page(shown))
        return JSONResponse(shown.model_dump(mode="json"))

    async def live(self, request: Request) -> Response:
        """`GET /livez`: the process answers."""
        return PlainTextResponse("alive\n")

    async def ready(self, request: Request) -> Response:
        """`GET /readyz`: a model can answer; troubles are told beside it."""
        state = self._following().state
        if not state.releases:
            raise NothingServed(nothing_served(state, self.settings.alias))
        readiness = Readiness(
            status="degraded" if state.troubles else "ready",
            models=sorted(state.releases),
            troubles=list(state.troubles.values()),
        )
        return JSONResponse(readiness.model_dump())

    async def prometheus(self, request: Request) -> Response:
        """`GET /metrics`."""
        await self._authorise(request)
        text = await anyio.to_thread.run_sync(self.metrics.render)
        return Response(text, media_type=MEDIA_TYPE)

    async def openapi(self, request: Request) -> Response:
        """`GET /openapi.json`."""
        return JSONResponse(self.api)

    async def docs(self, request: Request) -> Response:
        """`GET /docs`."""
        return HTMLResponse(docs_page(self.api, str(request.base_url).rstrip("/")))

    def routes(self) -> list[Route]:
        """Every path of the interface."""
        return [
            Route("/v1/diagnoses", self.diagnose, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name}/card", self.card),
            Route("/livez", self.live),
            Route("/readyz", self.ready),
            Route("/metrics", self.prometheus),
            Route("/openapi.json", self.openapi),
            Route("/docs", self.docs),
        ]

    def _following(self) -> Live:
        if self._live is None:
            raise NothingServed("the service is starting or ending; try again", {"Retry-After": "1"})
        return self._live

    async def _authorise(self, request: Request) -> None:
        authorise(request, self._following().state.keys)

    async def _state(self, request: Request) -> State:
        """What is current for this request, waiting while a new release is being loaded."""
        live, began = self._following(), request.state.began
        while (state := live.state_for(began)) is None:
            if time.monotonic() - began > self.settings.patience_seconds:
                raise NothingServed(
                    "a new release has been loading for too long; try again", {"Retry-After": "5"}
                )
            await anyio.sleep(POLL)
        authorise(request, state.keys)  # a key may have been revoked while the body came in
        if not state.releases:
            raise NothingServed(nothing_served(state, self.settings.alias), {"Retry-After": "5"})
        return state

    def _served(self, served: LoadedRelease) -> ServedModel:
        everybody = next(iter(served.versions.values()))
        return ServedModel(
            name=served.release.model,
            release=served.release.id,
            alias=self.settings.alias,
            labels=[label.code for label in everybody.manifest.labels],
            versions=[
                ServedVersion(
                    version=version.number,
                    subgroup=version.subgroup.name,
                    scale=version.subgroup.scale,
                    skin_tones=list(version.subgroup.values),
                    digest=version.digest,
                )
                for version in served.release.versions
            ],
        )


def pick(state: State, name: str | None) -> LoadedRelease:
    """The release of the model asked for, or of the only one there is.

    Raises:
        UnknownModel: nothing of this name is served.
        InvalidParameter: no name, and several models.
    """
    if name is None:
        if len(state.releases) > 1:
            raise InvalidParameter(
                f"several models are served; name one: `model` is {', '.join(state.releases)}"
            )
        return next(iter(state.releases.values()))
    if name not in state.releases:
        raise UnknownModel(f"no model {name[:100]!r} is served; {nearest(name, list(state.releases))}")
    return state.releases[name]


def nothing_served(state: State, alias: str) -> str:
    """Why no model can answer, and what to do."""
    if state.troubles:
        return "; ".join(state.troubles.values())
    return f"no model has been promoted to {alias}; use `dermfed-registry promote MODEL VERSION --to {alias}`"


def build_app(settings: ServeSettings, source: Callable[[], AbstractContextManager[Any]]) -> Starlette:
    """The whole interface as an ASGI application.

    Args:
        settings: what an operator set.
        source: opens the registry when the application starts.
    """
    endpoints = DiagnosisApp(settings)
    routes = endpoints.routes()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with endpoints.serve(source):
            yield

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Exchange, routes=routes, metrics=endpoints.metrics)],
        # Exchange turns what goes wrong into an answer: let it through.
        exception_handlers={HTTPException: _pass_on},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _pass_on(request: Request, error: Exception) -> Response:
    raise error

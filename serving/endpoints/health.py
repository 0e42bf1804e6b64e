"""`/livez`, `/readyz` and `/metrics`: for whoever runs the service."""

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from serving.live import State
from serving.metrics import MEDIA_TYPE
from serving.problems import NothingServed
from serving.running import Running, nothing_served
from serving.schemas import Readiness


class Health:
    """How the service is."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def routes(self) -> list[Route]:
        """Its paths."""
        return [
            Route("/livez", self.live),
            Route("/readyz", self.ready),
            Route("/metrics", self.prometheus),
        ]

    async def live(self, request: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("alive\n")

    async def ready(self, request: Request) -> Response:
        """A model can answer; troubles are told beside it."""
        self._running.admission.check_open()
        state = self._running.live.state
        if not state.releases:
            raise NothingServed(self._why(state, request))
        troubles = self._running.troubles
        if troubles and not self._running.may(request, "operate"):
            troubles = [
                f"{len(troubles)} troubles; the log names them, and a key with the scope operate is told"
            ]
        readiness = Readiness(
            status="degraded" if troubles else "ready", models=sorted(state.releases), troubles=troubles
        )
        return JSONResponse(readiness.model_dump())

    def _why(self, state: State, request: Request) -> str:
        if self._running.may(request, "operate"):
            return nothing_served(state, self._running.settings.alias)
        return "no model can answer; the service's log says why, and a key with the scope operate is told"

    async def prometheus(self, request: Request) -> Response:
        """All counters."""
        await self._running.authorise(request, "operate")
        text = await anyio.to_thread.run_sync(self._running.metrics.render)
        return Response(text, media_type=MEDIA_TYPE)

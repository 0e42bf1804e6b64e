"""`/livez`, `/readyz` and `/metrics`: for whoever runs the service."""

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from serving.metrics import MEDIA_TYPE
from serving.protocol.problems import NothingServed
from serving.protocol.schemas import Readiness
from serving.releases.current_release import ServedRelease
from serving.state import NOT_TOLD, ServiceState, nothing_served


class Health:
    """The endpoints that probes and Prometheus ask."""

    def __init__(self, service: ServiceState) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Its paths."""
        return [
            Route("/livez", self.live),
            Route("/readyz", self.ready),
            Route("/metrics", self.prometheus),
        ]

    async def live(self, request: Request) -> Response:
        """Liveness: the process answers."""
        return PlainTextResponse("alive\n")

    async def ready(self, request: Request) -> Response:
        """Readiness: whether a model can answer, with the health issues that degrade the service."""
        self._service.admission.check_open()
        served = self._service.current_release.served
        if not served.releases:
            raise NothingServed(self._why(served, request))
        issues = self._service.health_issues
        if issues and not self._service.may(request, "operate"):
            issues = [f"{len(issues)} troubles; the log names them, and a key with the scope operate is told"]
        readiness = Readiness(
            status="degraded" if issues else "ready", models=sorted(served.releases), troubles=issues
        )
        return JSONResponse(readiness.model_dump())

    def _why(self, served: ServedRelease, request: Request) -> str:
        if self._service.may(request, "operate"):
            return nothing_served(served, self._service.settings.alias, in_full=True)
        return NOT_TOLD

    async def prometheus(self, request: Request) -> Response:
        """All metrics in Prometheus' text format."""
        await self._service.authorise(request, "operate")
        text = await anyio.to_thread.run_sync(self._service.metrics.render)
        return Response(text, media_type=MEDIA_TYPE)

"""`/openapi.json` and `/docs`: the interface, for programs and for people."""

from functools import lru_cache

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from serving.http.headers import POLICY, policy_for
from serving.http.openapi import describe, docs_page
from serving.state import ServiceState

_HOSTS = 16
"""Names of the service for which the page is kept; whoever asks may make one up."""


class Description:
    """The endpoints that describe the interface: the OpenAPI document, and the page made from it."""

    def __init__(self, service: ServiceState) -> None:
        settings = service.settings
        # Open to all, and the same for all: made once for each path and host that it is asked for under.
        self._document = lru_cache(1)(lambda root: bytes(JSONResponse(describe(settings, root)).body))
        self._page = lru_cache(_HOSTS)(lambda base: docs_page(describe(settings), base))

    def routes(self) -> list[Route]:
        """Its paths."""
        return [Route("/openapi.json", self.openapi), Route("/docs", self.docs)]

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document."""
        return Response(self._document(request.scope["root_path"]), media_type="application/json")

    async def docs(self, request: Request) -> Response:
        """The documentation page."""
        page = self._page(str(request.base_url).rstrip("/"))
        return HTMLResponse(page, headers={POLICY: policy_for(page)})

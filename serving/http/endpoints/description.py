"""`/openapi.json` and `/docs`: the interface, for programs and for people."""

from functools import lru_cache, partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from serving.http.docs_page import docs_page
from serving.http.headers import POLICY, policy_for
from serving.http.openapi import describe
from serving.state import ServiceState

_HOSTS = 16
"""Names of the service for which the page is kept; whoever asks may make one up."""


class Description:
    """The endpoints that describe the interface: the OpenAPI document, and the page made from it."""

    def __init__(self, service: ServiceState) -> None:
        api = describe(service.settings)
        # Open to all, and the same for all: made once. The page names the host that it was asked for by.
        self._document = lru_cache(maxsize=_HOSTS)(
            lambda root: bytes(JSONResponse({**api, "servers": [{"url": root or "/"}]}).body)
        )
        self._page = lru_cache(maxsize=_HOSTS)(partial(docs_page, api))

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

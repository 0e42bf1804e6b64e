"""`/openapi.json` and `/docs`: the interface, for programs and for people."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from serving.docs_page import docs_page
from serving.headers import POLICY, policy_for
from serving.openapi import describe
from serving.running import Running


class Description:
    """What the service says of itself."""

    def __init__(self, running: Running) -> None:
        self._api = describe(running.settings)

    def routes(self) -> list[Route]:
        """Its paths."""
        return [Route("/openapi.json", self.openapi), Route("/docs", self.docs)]

    async def openapi(self, request: Request) -> Response:
        """For programs."""
        return JSONResponse(self._api)

    async def docs(self, request: Request) -> Response:
        """For people."""
        page = docs_page(self._api, str(request.base_url).rstrip("/"))
        return HTMLResponse(page, headers={POLICY: policy_for(page)})

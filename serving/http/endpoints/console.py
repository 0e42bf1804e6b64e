"""`/console`: what a promotion would change, and the commands that do it."""

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.errors import DatabaseError, RegistryError, StoreError
from registry.registry import Registry
from serving.http.endpoints.pages import page, problems_as_pages
from serving.protocol.problems import InvalidParameter, NothingServed
from serving.state import ServiceState
from serving.web.console_page import console_page, look

_AT_ONCE = 4
"""How many requests to the registry are worked on at once; they share no threads with diagnoses."""


class Console:
    """The endpoint of the console, which reads the registry and changes nothing."""

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    def routes(self) -> list[Route]:
        """Its path. It is a page for people, and not described for programs."""
        return [Route("/console", self.page, methods=["GET"], include_in_schema=False)]

    @problems_as_pages
    async def page(self, request: Request) -> Response:
        """What is chosen next to what runs, and what was done."""
        await self._service.authorise(request, "operate", page=True)
        settings, query = self._service.settings, request.query_params.multi_items()
        registry = self._service.registry
        if not isinstance(registry, Registry):
            raise NothingServed(
                "this service cannot compare versions of its registry; run `dermfed-registry compare`"
            )

        def shown() -> str:
            try:
                return console_page(look(registry, query, settings.default_model, settings.alias))
            except (DatabaseError, StoreError) as error:
                raise NothingServed(f"the registry cannot be used: {error}", {"Retry-After": "5"}) from error
            except RegistryError as error:
                raise InvalidParameter(str(error)) from error

        return page(await anyio.to_thread.run_sync(shown, limiter=self._threads))

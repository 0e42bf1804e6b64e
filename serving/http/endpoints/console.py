"""`/console` and what its page asks: for whoever promotes, with their own key.

The API key says who may ask; who may act, the signature says. A browser sends the API key by itself, so what
another site makes it send is refused, and so is all but JSON, which no form can send.
"""

import base64
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.registry import Registry
from registry.rendering.records import event_lines
from serving.access.auth import refuse_other_sites
from serving.console import requests, signing
from serving.console.page import console_page, look
from serving.console.refusals import as_problems
from serving.http.body import read_body
from serving.http.endpoints.pages import page, problems_as_pages
from serving.http.upload import media_type
from serving.protocol.problems import RefusedByRegistry, WrongMediaType
from serving.state import ServiceState

_AT_ONCE = 4
"""How many requests to the registry are worked on at once; they share no threads with diagnoses."""

JSON = "application/json"
Found = TypeVar("Found")


class Console:
    """The endpoints of the console: its page, and the two steps of an action."""

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    def routes(self) -> list[Route]:
        """Their paths. They are the page's own, and not described for programs."""
        return [
            Route("/console", self.page, methods=["GET"], include_in_schema=False),
            Route("/v1/console/prepare", self.prepare, methods=["POST"], include_in_schema=False),
            Route("/v1/console/act", self.act, methods=["POST"], include_in_schema=False),
        ]

    @problems_as_pages
    async def page(self, request: Request) -> Response:
        """What is chosen beside what runs, and what was done."""
        await self._service.authorise(request, "operate", page=True)
        settings, query = self._service.settings, request.query_params.multi_items()
        show = partial(look, query=query, default_model=settings.default_model, default_alias=settings.alias)
        return page(await self._in_a_thread(lambda registry: console_page(show(registry))))

    async def prepare(self, request: Request) -> Response:
        """The statements that are to be signed, and whose key it is; nothing is done."""
        asked = await self._read(request, requests.Prepare)
        found = await self._in_a_thread(partial(signing.prepare, asked=asked))
        return JSONResponse(
            {
                "person": {"name": found.person.name, "roles": list(found.person.roles)},
                "statements": [base64.b64encode(one).decode() for one in found.statements],
            }
        )

    async def act(self, request: Request) -> Response:
        """Does what was signed."""
        asked = await self._read(request, requests.Act)
        events = await self._in_a_thread(partial(signing.act, asked=asked))
        return JSONResponse({"done": [event_lines(event).splitlines() for event in events]})

    async def _read(self, request: Request, kind: type[requests.Kind]) -> requests.Kind:
        """An authorised request's body."""
        refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
        await self._service.authorise(request, "operate", page=True)
        self._service.admission.check_open()
        if media_type(request.headers.get("content-type", "")) != JSON:
            raise WrongMediaType(f"send {JSON}")
        too_large = f"the body has more than {requests.LARGEST:,} bytes; name fewer versions"
        asked = requests.read_request(kind, await read_body(request, requests.LARGEST, too_large))
        signing.reason_needed(asked.action)
        return asked

    async def _in_a_thread(self, work: Callable[[Registry], Found]) -> Found:
        """Does something with the registry, to its end even where the caller goes away."""
        registry = self._service.registry
        if not isinstance(registry, Registry):
            raise RefusedByRegistry("this service only reads its registry; nothing can be done from here")

        def worked() -> Found:
            with as_problems():
                return work(registry)

        return await anyio.to_thread.run_sync(worked, limiter=self._threads)

"""`/` and `/operator`: the pages for people, and the files that they load.

A key is the password of the browser's own dialogue. A form that another site's page sends is refused, for
the browser would send the key with it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from registry.records import Event
from serving.auth import refuse_other_sites
from serving.endpoints.diagnoses import Diagnoses
from serving.endpoints.models import served_model
from serving.exchange import request_id
from serving.headers import PAGE_POLICY, POLICY
from serving.problems import Problem
from serving.running import Running
from serving.web.operator_page import Seen, operator_page
from serving.web.picture_page import picture_page, read_form
from serving.web.rendering import ASSETS, asset, render

_LOOKING = 4
"""Operators whose page is made at once."""

Endpoint = Callable[["Pages", Request], Awaitable[Response]]


def for_people(endpoint: Endpoint) -> Endpoint:
    """What goes wrong is told as a page, with the same status and id, where a page was asked for."""

    @wraps(endpoint)
    async def told(self: "Pages", request: Request) -> Response:
        try:
            return await endpoint(self, request)
        except Problem as problem:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            shown = render("problem.html", here="", problem=problem, request_id=request_id(request))
            return page(shown, problem.status, problem.headers)

    return told


class Pages:
    """The pages."""

    def __init__(self, running: Running, diagnoses: Diagnoses) -> None:
        self._running = running
        self._diagnoses = diagnoses
        # A registry that does not answer keeps these threads, and no others.
        self._looking = anyio.CapacityLimiter(_LOOKING)

    def routes(self) -> list[Route]:
        """Their paths."""
        files = [
            Route(f"/assets/{name}", partial(self.asset, name), methods=["GET"], include_in_schema=False)
            for name in ASSETS
        ]
        return [
            Route("/", self.picture, methods=["GET"], include_in_schema=False),
            Route("/", self.diagnose, methods=["POST"], include_in_schema=False),
            Route("/operator", self.operator, methods=["GET"], include_in_schema=False),
            *files,
        ]

    async def asset(self, name: str, request: Request) -> Response:
        """A file that pages load; there is nothing in it to protect."""
        return Response(asset(name), media_type=ASSETS[name])

    @for_people
    async def picture(self, request: Request) -> Response:
        """The form."""
        await self._running.authorise(request, "diagnose", page=True)
        return page(picture_page(await self._running.state(request)))

    @for_people
    async def diagnose(self, request: Request) -> Response:
        """The form with the answer for the picture in it."""
        refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
        with self._running.records.of(request) as record:
            await self._running.authorise(request, "diagnose", page=True)
            made = await self._diagnoses.make(request, record, read_form)
            shown = picture_page(self._running.live.state, made.diagnosis, made.parameters)
            return self._diagnoses.ready(request, record, made, page(shown))

    @for_people
    async def operator(self, request: Request) -> Response:
        """What whoever runs the service has to see."""
        await self._running.authorise(request, "operate", page=True)
        seen = await anyio.to_thread.run_sync(lambda: operator_page(self._seen()), limiter=self._looking)
        return page(seen)

    def _seen(self) -> Seen:
        running = self._running
        state, alias = running.live.state, running.settings.alias
        history: dict[str, Sequence[Event]] = {}
        unread = []
        for name in state.releases:
            try:
                history[name] = running.registry.history(name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the rest is needed now more than ever
                unread.append(f"what was done to {name} cannot be read: {error}")
        return Seen(
            state=state,
            served={name: served_model(one, alias) for name, one in state.releases.items()},
            history=history,
            troubles=[*running.troubles, *unread],
            drift=running.monitoring.drift(),
            decisions=running.monitoring.decisions(),
            shadow=running.monitoring.shadow(),
            shadow_alias=running.settings.shadow_alias,
        )


def page(content: str, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    """A page with the policy of pages."""
    return HTMLResponse(content, status, headers={**(headers or {}), POLICY: PAGE_POLICY})

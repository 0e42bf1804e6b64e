"""`/` and `/operator`: the pages for people, and the files that they load.

A key is the password of the browser's own dialogue. A form that another site's page sends is refused, for
the browser would send the key with it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from registry.records import Event
from serving.access.auth import refuse_other_sites
from serving.http.endpoints.diagnoses import Diagnoses
from serving.http.endpoints.models import served_model
from serving.http.headers import PAGE_POLICY, PICTURE_POLICY, POLICY
from serving.http.middleware import request_id
from serving.protocol.problems import ProblemResponse
from serving.state import ServiceState
from serving.web.answer import looked_at
from serving.web.operator_page import NEWEST, Seen, operator_page
from serving.web.picture_page import picture_page, read_form
from serving.web.rendering import ASSETS, asset, problem_page

_OPERATOR_PAGES = 4
"""How many operator pages are made at once."""

Of = TypeVar("Of")
Endpoint = Callable[[Of, Request], Awaitable[Response]]


def problems_as_pages(endpoint: Endpoint[Of]) -> Endpoint[Of]:
    """Decorates an endpoint so that browsers get its problem responses as pages, with the same status."""

    @wraps(endpoint)
    async def wrapped(self: Of, request: Request) -> Response:
        try:
            return await endpoint(self, request)
        except ProblemResponse as problem:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return page(problem_page(problem, request_id(request)), problem.status, problem.headers)

    return wrapped


class Pages:
    """The endpoints of the pages for people: trying a picture, and the operator's view."""

    def __init__(self, service: ServiceState, diagnoses: Diagnoses) -> None:
        self._service = service
        self._diagnoses = diagnoses
        # A registry that does not answer keeps these threads, and no others.
        self._operator_pages = anyio.CapacityLimiter(_OPERATOR_PAGES)

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
        """A style sheet, script or icon that pages load; open to all."""
        return Response(asset(name), media_type=ASSETS[name])

    @problems_as_pages
    async def picture(self, request: Request) -> Response:
        """The form on which a picture is chosen."""
        await self._service.authorise(request, "diagnose", page=True)
        shown = picture_page(
            await self._service.served(request),
            keeps_answers=self._service.answers is not None,
            gives_outcomes=self._gives_outcomes(request),
        )
        return page(shown, policy=PICTURE_POLICY)

    @problems_as_pages
    async def diagnose(self, request: Request) -> Response:
        """The form with the answer for the picture in it."""
        refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
        async with self._service.decision_log.entry_of(request) as entry:
            await self._service.authorise(request, "diagnose", page=True)
            result = await self._diagnoses.run_diagnosis(request, entry, read_form)
            served = self._service.current_release.served
            decoded = result.decoded
            shown = picture_page(
                served,
                result.diagnosis,
                result.parameters,
                keeps_answers=self._service.answers is not None,
                gives_outcomes=self._gives_outcomes(request),
                labels=result.loaded.manifest.labels,
                looked=looked_at(result.diagnosis, decoded.question.images, decoded.where),
            )
            answer = page(shown, policy=PICTURE_POLICY)
            return await self._diagnoses.respond(request, entry, result, answer)

    def _gives_outcomes(self, request: Request) -> bool:
        return self._service.answers is not None and self._service.may(request, "outcome", page=True)

    @problems_as_pages
    async def operator(self, request: Request) -> Response:
        """The operator's page: releases, fairness, history, health issues, drift and shadow comparisons."""
        await self._service.authorise(request, "operate", page=True)
        content = await anyio.to_thread.run_sync(
            lambda: operator_page(self._operator_view()), limiter=self._operator_pages
        )
        return page(content)

    def _operator_view(self) -> Seen:
        service = self._service
        served, alias = service.current_release.served, service.settings.alias
        history: dict[str, Sequence[Event]] = {}
        forged: dict[str, frozenset[int] | None] = {}
        look = getattr(service.registry, "forged", lambda _: None)  # not every source can tell
        unread = []
        for name in served.releases:
            try:
                history[name] = service.registry.history(name)
                forged[name] = look(history[name][-NEWEST:])
            except Exception as error:  # noqa: BLE001 - whatever it is, the rest is needed now more than ever
                unread.append(f"what was done to {name} cannot be read: {error}")
        return Seen(
            state=served,
            served={name: served_model(one, alias) for name, one in served.releases.items()},
            history=history,
            forged=forged,
            troubles=[*service.health_issues, *unread],
            drift=service.monitoring.drift(),
            decisions=service.monitoring.decisions(),
            shadow=service.monitoring.shadow(),
            answering=frozenset(one.event for one, _ in service.canaries.answering().values()),
            field=service.monitoring.field(),
        )


def page(
    content: str, status: int = 200, headers: dict[str, str] | None = None, policy: str = PAGE_POLICY
) -> HTMLResponse:
    """An HTML response with the content security policy of pages."""
    return HTMLResponse(content, status, headers={**(headers or {}), POLICY: policy})

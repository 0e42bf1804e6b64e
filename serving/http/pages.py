"""The pages for people, and the files that they load.

`/` takes pictures, `/operator` shows what is served, `/console` what a promotion would change; on
`/diagnoses` an answer is found again, and its outcome given: nothing of a person is there, no picture,
subgroup or score. A key is the password of the browser's own dialogue. A form that another site's page sends
is refused, for the browser would send the key with it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from registry.errors import DatabaseError, RegistryError, StoreError
from registry.outcomes.store import OutcomeRefused, SeenAnswer
from registry.records import Event
from serving.auth import refuse_other_sites
from serving.http.diagnoses import respond, run_diagnosis
from serving.http.middleware import PAGE_POLICY, PICTURE_POLICY, POLICY, shown_id
from serving.http.models import served_model
from serving.http.outcomes import LARGEST, as_problem, keeper, look, read_id, take, whose
from serving.http.upload import media_type, read_body
from serving.protocol.problems import (
    InvalidParameter,
    NothingServed,
    OutcomeKnown,
    ProblemResponse,
    UnknownDiagnosis,
    WrongMediaType,
)
from serving.state import ServiceState, service_of
from serving.web.answer import looked_at
from serving.web.operator_page import NEWEST, Seen, console_page, operator_page
from serving.web.picture_page import (
    ANSWERS,
    answer_page,
    looking_page,
    picture_page,
    read_fields,
    read_form,
    read_outcome,
)
from serving.web.rendering import ASSETS, asset, problem_page

Endpoint = Callable[[Request], Awaitable[Response]]


def problems_as_pages(endpoint: Endpoint) -> Endpoint:
    """Decorates an endpoint so that browsers get its problem responses as pages, with the same status."""

    @wraps(endpoint)
    async def wrapped(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ProblemResponse as problem:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return page(problem_page(problem, shown_id(request)), problem.status, problem.headers)

    return wrapped


async def load(name: str, request: Request) -> Response:
    """A style sheet, script or icon that pages load; open to all."""
    return Response(asset(name), media_type=ASSETS[name])


@problems_as_pages
async def picture(request: Request) -> Response:
    """The form on which a picture is chosen."""
    service = service_of(request)
    await service.authorise(request, "diagnose", page=True)
    shown = picture_page(
        await service.served(request),
        keeps_answers=service.answers is not None,
        gives_outcomes=_gives_outcomes(service, request),
    )
    return page(shown, policy=PICTURE_POLICY)


@problems_as_pages
async def try_picture(request: Request) -> Response:
    """The form with the answer for the picture in it."""
    service = service_of(request)
    refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
    async with service.decision_log.entry_of(request) as entry:
        await service.authorise(request, "diagnose", page=True)
        result = await run_diagnosis(service, request, entry, read_form)
        served = service.current_release.served
        decoded = result.decoded
        shown = picture_page(
            served,
            result.diagnosis,
            result.parameters,
            keeps_answers=service.answers is not None,
            gives_outcomes=_gives_outcomes(service, request),
            labels=result.loaded.manifest.labels,
            looked=looked_at(result.diagnosis, decoded.question.images, decoded.where),
        )
        answer = page(shown, policy=PICTURE_POLICY)
        return await respond(service, request, entry, result, answer)


def _gives_outcomes(service: ServiceState, request: Request) -> bool:
    return service.answers is not None and service.may(request, "outcome", page=True)


@problems_as_pages
async def operator(request: Request) -> Response:
    """The operator's page: releases, fairness, history, health issues, drift and shadow comparisons."""
    service = service_of(request)
    await service.authorise(request, "operate", page=True)
    content = await anyio.to_thread.run_sync(
        lambda: operator_page(_operator_view(service)), limiter=service.operator_threads
    )
    return page(content)


def _operator_view(service: ServiceState) -> Seen:
    served, alias = service.current_release.served, service.settings.alias
    history: dict[str, Sequence[Event]] = {}
    forged: dict[str, frozenset[int] | None] = {}
    unread = []
    for name in served.releases:
        try:
            history[name] = service.registry.history(name)
            forged[name] = service.registry.forged(history[name][-NEWEST:])
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


FORM = "application/x-www-form-urlencoded"


@problems_as_pages
async def look_for(request: Request) -> Response:
    """The form for an answer's number; with one in the query, the way to its page."""
    service = service_of(request)
    await service.authorise(request, "outcome", page=True)
    keeper(service)
    sent = request.query_params.get("id", "").strip()
    if not sent:
        return page(looking_page())
    try:
        id_ = read_id(sent)
    except UnknownDiagnosis as problem:
        return page(looking_page(sent[:64], problem), problem.status)
    return RedirectResponse(f"{request.scope['root_path']}{ANSWERS}/{id_}", status_code=303)


@problems_as_pages
async def show(request: Request) -> Response:
    """The page of an answer."""
    service = service_of(request)
    await service.authorise(request, "outcome", page=True)
    try:
        seen = await _seen(service, request)
    except UnknownDiagnosis as problem:
        shown = looking_page(str(request.path_params["id"])[:64], problem)
        return page(shown, problem.status)
    return page(answer_page(seen, await _names(service, seen)))


@problems_as_pages
async def give(request: Request) -> Response:
    """Takes an outcome and shows the answer's page again, with why not where it was not taken."""
    service = service_of(request)
    refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
    await service.authorise(request, "outcome", page=True)
    service.admission.check_open()
    if media_type(request.headers.get("content-type", "")) != FORM:
        raise WrongMediaType(f"send {FORM}, as the page does")
    too_large = f"the form has more than {LARGEST:,} bytes; an outcome takes some hundred"
    fields = read_fields(await read_body(request, LARGEST, too_large, "form"))
    id_, key = read_id(request.path_params["id"]), whose(request, page=True)
    try:
        try:
            await take(service, read_outcome(id_, fields), key)
        except OutcomeRefused as refused:
            raise as_problem(refused) from refused
    except (InvalidParameter, OutcomeKnown) as problem:
        seen = await _seen(service, request)
        shown = answer_page(seen, await _names(service, seen), fields, problem)
        return page(shown, problem.status)
    return RedirectResponse(f"{request.scope['root_path']}{ANSWERS}/{id_}", status_code=303)


async def _seen(service: ServiceState, request: Request) -> SeenAnswer:
    id_ = read_id(request.path_params["id"])
    return await look(service, id_, whose(request, page=True))


async def _names(service: ServiceState, seen: SeenAnswer) -> Mapping[str, str]:
    """What the diseases of the version that answered are called; nothing where that is not known."""
    release = service.current_release.served.releases.get(seen.model)
    for one in release.versions.values() if release else ():
        if one.version.number == seen.version:
            return {label.code: label.name for label in one.manifest.labels}
    registry = service.registry
    try:
        version = await anyio.to_thread.run_sync(registry.version, seen.model, seen.version)
        manifest = await anyio.to_thread.run_sync(registry.manifest, version)
    except Exception:  # noqa: BLE001 - codes alone are enough to give an outcome
        return {}
    return {label.code: label.name for label in manifest.labels}


@problems_as_pages
async def console(request: Request) -> Response:
    """What is chosen next to what runs, and what was done."""
    service = service_of(request)
    await service.authorise(request, "operate", page=True)
    settings, query = service.settings, request.query_params.multi_items()
    registry = service.registry

    def made() -> str:
        try:
            return console_page(registry, query, settings.default_model, settings.alias)
        except (DatabaseError, StoreError) as error:
            raise NothingServed(f"the registry cannot be used: {error}", {"Retry-After": "5"}) from error
        except RegistryError as error:
            raise InvalidParameter(str(error)) from error

    return page(await anyio.to_thread.run_sync(made, limiter=service.operator_threads))


_PAGES: Final[Sequence[tuple[str, str, Endpoint]]] = (
    ("GET", "/", picture),
    ("POST", "/", try_picture),
    ("GET", "/operator", operator),
    ("GET", ANSWERS, look_for),
    ("GET", f"{ANSWERS}/{{id}}", show),
    ("POST", f"{ANSWERS}/{{id}}", give),
    ("GET", "/console", console),
    *(("GET", f"/assets/{name}", partial(load, name)) for name in ASSETS),
)
ROUTES: Final = tuple(
    Route(path, endpoint, methods=[method], include_in_schema=False) for method, path, endpoint in _PAGES
)

"""`/diagnoses` and `/diagnoses/{id}`: the pages on which an answer is found again, and its outcome given.

Nothing of a person is on them: no picture, no subgroup, no score. A form that another site's page sends is
refused, for the browser would send the key with it.
"""

from collections.abc import Mapping

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from registry.outcomes.store import OutcomeRefused, SeenAnswer
from serving.access.auth import refuse_other_sites
from serving.http.body import read_body
from serving.http.endpoints.outcomes import LARGEST, Outcomes, as_problem, read_id
from serving.http.endpoints.pages import page, problems_as_pages
from serving.http.upload import media_type
from serving.protocol.problems import InvalidParameter, OutcomeKnown, UnknownDiagnosis, WrongMediaType
from serving.state import ServiceState
from serving.web.outcome_page import PATH, answer_page, looking_page, read_fields, read_outcome

FORM = "application/x-www-form-urlencoded"


class AnswerPages:
    """The endpoints of the pages of answers that were given before."""

    def __init__(self, service: ServiceState, outcomes: Outcomes) -> None:
        self._service = service
        self._outcomes = outcomes

    def routes(self) -> list[Route]:
        """Their paths."""
        return [
            Route(PATH, self.look_for, methods=["GET"], include_in_schema=False),
            Route(f"{PATH}/{{id}}", self.look, methods=["GET"], include_in_schema=False),
            Route(f"{PATH}/{{id}}", self.give, methods=["POST"], include_in_schema=False),
        ]

    @problems_as_pages
    async def look_for(self, request: Request) -> Response:
        """The form for an answer's number; with one in the query, the way to its page."""
        await self._service.authorise(request, "outcome", page=True)
        self._outcomes.keeper()
        sent = request.query_params.get("id", "").strip()
        if not sent:
            return page(looking_page())
        try:
            id_ = read_id(sent)
        except UnknownDiagnosis as problem:
            return page(looking_page(sent[:64], problem), problem.status)
        return RedirectResponse(f"{request.scope['root_path']}{PATH}/{id_}", status_code=303)

    @problems_as_pages
    async def look(self, request: Request) -> Response:
        """The page of an answer."""
        await self._service.authorise(request, "outcome", page=True)
        try:
            seen = await self._seen(request)
        except UnknownDiagnosis as problem:
            shown = looking_page(str(request.path_params["id"])[:64], problem)
            return page(shown, problem.status)
        return page(answer_page(seen, await self._names(seen)))

    @problems_as_pages
    async def give(self, request: Request) -> Response:
        """Takes an outcome and shows the answer's page again, with why not where it was not taken."""
        refuse_other_sites(request)  # first, for it would count for the user whose browser sends it
        await self._service.authorise(request, "outcome", page=True)
        self._service.admission.check_open()
        if media_type(request.headers.get("content-type", "")) != FORM:
            raise WrongMediaType(f"send {FORM}, as the page does")
        too_large = f"the form has more than {LARGEST:,} bytes; an outcome takes some hundred"
        fields = read_fields(await read_body(request, LARGEST, too_large, "form"))
        id_, key = read_id(request.path_params["id"]), self._outcomes.whose(request, page=True)
        try:
            try:
                await self._outcomes.take(read_outcome(id_, fields), key)
            except OutcomeRefused as refused:
                raise as_problem(refused) from refused
        except (InvalidParameter, OutcomeKnown) as problem:
            seen = await self._seen(request)
            shown = answer_page(seen, await self._names(seen), fields, problem)
            return page(shown, problem.status)
        return RedirectResponse(f"{request.scope['root_path']}{PATH}/{id_}", status_code=303)

    async def _seen(self, request: Request) -> SeenAnswer:
        id_ = read_id(request.path_params["id"])
        return await self._outcomes.look(id_, self._outcomes.whose(request, page=True))

    async def _names(self, seen: SeenAnswer) -> Mapping[str, str]:
        """What the diseases of the version that answered are called; nothing where that is not known."""
        release = self._service.current_release.served.releases.get(seen.model)
        for one in release.versions.values() if release else ():
            if one.version.number == seen.version:
                return {label.code: label.name for label in one.manifest.labels}
        registry = self._service.registry
        version, manifest = getattr(registry, "version", None), getattr(registry, "manifest", None)
        if version is None or manifest is None:  # not every source tells of versions that do not answer
            return {}
        try:
            told = await anyio.to_thread.run_sync(lambda: manifest(version(seen.model, seen.version)))
        except Exception:  # noqa: BLE001 - codes alone are enough to give an outcome
            return {}
        return {label.code: label.name for label in told.labels}

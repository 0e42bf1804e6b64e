"""`POST /v1/diagnoses/{id}/outcome`: what became of the patient, by whoever asked."""

import uuid
from functools import partial

import anyio
import anyio.to_thread
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.errors import RegistryError
from registry.outcomes.giving import ANYBODY, Refusal, Taken
from registry.outcomes.outcome import (
    Outcome,
    OutcomeGiven,
    OutcomeRefused,
    UnknownAnswer,
    read_confirmed_by,
    read_date,
)
from serving.access.auth import refuse_other_sites
from serving.http.body import read_body
from serving.http.upload import media_type
from serving.monitoring.outcomes.keeping import AnswerKeeper
from serving.protocol.outcomes import GivenOutcome, OutcomeTaken
from serving.protocol.problems import (
    InvalidParameter,
    NothingKept,
    OutcomeKnown,
    OutcomesNotTaken,
    ProblemResponse,
    UnknownDiagnosis,
    WrongMediaType,
)
from serving.state import ServiceState

JSON = "application/json"
LARGEST = 4096
"""Bytes of a body."""

_AT_ONCE = 4
_AGAIN_SECONDS = 0.5
"""After which an unknown answer is looked for once more: another process may just be writing it."""


class Outcomes:
    """The endpoint that takes outcomes."""

    def __init__(self, service: ServiceState) -> None:
        self._service = service
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    def routes(self) -> list[Route]:
        """Its path."""
        return [Route("/v1/diagnoses/{id}/outcome", self.give, methods=["POST"])]

    async def give(self, request: Request) -> Response:
        """Takes the outcome of an answer, a correction of it, or takes it back."""
        refuse_other_sites(request)
        await self._service.authorise(request, "outcome")
        self._service.admission.check_open()
        keeper = self._service.answers
        if keeper is None:
            raise NothingKept(
                "this service keeps no answers to be judged; its operator names a database for them in "
                "DERMFED_OUTCOMES_URL"
            )
        if media_type(request.headers.get("content-type", "")) != JSON:
            raise WrongMediaType(f"send {JSON}")
        too_large = f"the body has more than {LARGEST:,} bytes; an outcome takes some hundred"
        body = await read_body(request, LARGEST, too_large)
        outcome = _read(request.path_params["id"], body)
        may_all = request.state.key is not None and self._service.may(request, "operate")
        key = ANYBODY if may_all else request.state.key
        taken = await self._give(keeper, outcome, key)
        return JSONResponse(OutcomeTaken(id=outcome.answer, taken=taken).model_dump(mode="json"))

    async def _give(self, keeper: AnswerKeeper, outcome: Outcome, key: str | None) -> Taken:
        for last in (False, True):
            told = await anyio.to_thread.run_sync(
                partial(_given, keeper, outcome, key), limiter=self._threads
            )
            if not isinstance(told, Refusal):
                return told
            if last or not isinstance(told.why, UnknownAnswer):
                raise _problem(told.why)
            await anyio.sleep(_AGAIN_SECONDS)
        raise AssertionError


def _given(keeper: AnswerKeeper, outcome: Outcome, key: str | None) -> Taken | Refusal:
    try:
        return keeper.give(outcome, key)
    except RegistryError as error:
        raise OutcomesNotTaken(
            "the outcome cannot be kept at the moment; send it again later", {"Retry-After": "5"}
        ) from error


def _read(answer: str, body: bytes) -> Outcome:
    try:
        id_ = str(uuid.UUID(answer))
    except ValueError:
        raise UnknownDiagnosis("the id of a diagnosis is a UUID, as the answer has it in `id`") from None
    try:
        given = GivenOutcome.model_validate_json(body)
        confirmed_by, day = read_confirmed_by(given.confirmed_by), read_date(given.date)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the body"
        raise InvalidParameter(f"{where}: {problem['msg']}") from error
    except OutcomeRefused as refused:
        raise _problem(refused) from refused
    return Outcome(id_, given.label, confirmed_by, day, given.corrects)


def _problem(refused: OutcomeRefused) -> ProblemResponse:
    if isinstance(refused, UnknownAnswer):
        return UnknownDiagnosis(str(refused))
    if isinstance(refused, OutcomeGiven):
        return OutcomeKnown(str(refused))
    return InvalidParameter(str(refused))

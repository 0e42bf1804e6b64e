"""`POST /v1/diagnoses/{id}/outcome`: the outcome of a diagnosis, sent by its caller or an operator."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import anyio.to_thread
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registry.errors import RegistryError
from registry.outcomes.intake import read_confirmed_by, read_date
from registry.outcomes.store import (
    ANY_KEY,
    Outcome,
    OutcomeGiven,
    OutcomeRefused,
    SeenAnswer,
    Taken,
    UnknownAnswer,
)
from serving.auth import refuse_other_sites
from serving.http.middleware import document
from serving.http.upload import media_type, read_body
from serving.monitoring.outcomes import AnswerKeeper
from serving.protocol.documents import GivenOutcome, OutcomeTaken
from serving.protocol.problems import (
    InvalidParameter,
    NothingKept,
    OutcomeKnown,
    OutcomesNotTaken,
    ProblemResponse,
    UnknownDiagnosis,
    WrongMediaType,
)
from serving.state import ServiceState, service_of

JSON = "application/json"
LARGEST = 4096
"""Bytes of a body."""

Found = TypeVar("Found")

_AGAIN_SECONDS = 0.5
"""After which an unknown answer is looked for once more: another process may just be writing it."""


async def give(request: Request) -> Response:
    """Takes the outcome of an answer, a correction of it, or takes it back."""
    service = service_of(request)
    refuse_other_sites(request, service.settings.cors_origins)
    await service.authorise(request, "outcome")
    service.admission.check_open()
    keeper(service)
    if media_type(request.headers.get("content-type", "")) != JSON:
        raise WrongMediaType(f"send {JSON}")
    too_large = f"the body has more than {LARGEST:,} bytes; an outcome takes some hundred"
    body = await read_body(request, LARGEST, too_large)
    outcome = _read(request.path_params["id"], body)
    taken = await take(service, outcome, whose(request))
    return document(OutcomeTaken(id=outcome.answer, taken=taken))


def keeper(service: ServiceState) -> AnswerKeeper:
    """What keeps answers.

    Raises:
        NothingKept: nothing does.
    """
    if service.answers is None:
        raise NothingKept(
            "this service keeps no answers to be judged; its operator names a database for them in "
            "DERMFED_OUTCOMES_URL"
        )
    return service.answers


def whose(request: Request, *, page: bool = False) -> str | None:
    """Whose answers an authorised request may judge: those of its key, or `ANY_KEY`'s for an operator."""
    service = service_of(request)
    may_all = request.state.key is not None and service.may(request, "operate", page=page)
    return ANY_KEY if may_all else request.state.key


async def take(service: ServiceState, outcome: Outcome, key: str | None) -> Taken:
    """Records an outcome sent with this key.

    Raises:
        NothingKept, UnknownDiagnosis, OutcomeKnown, InvalidParameter, OutcomesNotTaken: as the names say.
    """
    kept = keeper(service)
    told = await _twice(
        service,
        lambda: kept.give(outcome, key),
        lambda told: isinstance(told, UnknownAnswer),
    )
    if isinstance(told, OutcomeRefused):
        raise as_problem(told)
    return told


async def look(service: ServiceState, id_: str, key: str | None) -> SeenAnswer:
    """What is known of an answer, as far as this key may see it.

    Raises:
        NothingKept, UnknownDiagnosis, OutcomesNotTaken: as their names say.
    """
    kept = keeper(service)
    seen = await _twice(service, lambda: kept.look(id_, key), lambda seen: seen is None)
    if seen is None:
        raise UnknownDiagnosis("no answer of this number is kept that you may see; look at the number again")
    return seen


async def _twice(service: ServiceState, work: Callable[[], Found], missed: Callable[[Found], bool]) -> Found:
    """What a thread finds in the database; where that is nothing, what it finds a little later."""
    found = await anyio.to_thread.run_sync(partial(_in_database, work), limiter=service.outcome_threads)
    if not missed(found):
        return found
    await anyio.sleep(_AGAIN_SECONDS)
    return await anyio.to_thread.run_sync(partial(_in_database, work), limiter=service.outcome_threads)


def _in_database(work: Callable[[], Found]) -> Found:
    try:
        return work()
    except RegistryError as error:
        raise OutcomesNotTaken(
            "the outcome cannot be kept at the moment; send it again later", {"Retry-After": "5"}
        ) from error


def read_id(text: str) -> str:
    """The id of a diagnosis, as it is kept.

    Raises:
        UnknownDiagnosis: it cannot be one.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise UnknownDiagnosis("the id of a diagnosis is a UUID, as the answer has it in `id`") from None


def _read(answer: str, body: bytes) -> Outcome:
    id_ = read_id(answer)
    try:
        given = GivenOutcome.model_validate_json(body)
        confirmed_by, day = read_confirmed_by(given.confirmed_by), read_date(given.date)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the body"
        raise InvalidParameter(f"{where}: {problem['msg']}") from error
    except OutcomeRefused as refused:
        raise as_problem(refused) from refused
    return Outcome(id_, given.label, confirmed_by, day, given.corrects)


def as_problem(refused: OutcomeRefused) -> ProblemResponse:
    """What a request is answered with whose outcome is refused."""
    if isinstance(refused, UnknownAnswer):
        return UnknownDiagnosis(str(refused))
    if isinstance(refused, OutcomeGiven):
        return OutcomeKnown(str(refused))
    return InvalidParameter(str(refused))


ROUTES: Final = (Route("/v1/diagnoses/{id}/outcome", give, methods=["POST"]),)

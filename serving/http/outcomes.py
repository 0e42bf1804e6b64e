"""`POST /v1/diagnoses/{id}/outcome`: the outcome of a diagnosis, sent by its caller or an operator."""

import uuid
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
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
from serving.access.auth import refuse_other_sites
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
from serving.state import ServiceState

JSON = "application/json"
LARGEST = 4096
"""Bytes of a body."""

Found = TypeVar("Found")

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
        refuse_other_sites(request, self._service.settings.cors_origins)
        await self._service.authorise(request, "outcome")
        self._service.admission.check_open()
        self.keeper()
        if media_type(request.headers.get("content-type", "")) != JSON:
            raise WrongMediaType(f"send {JSON}")
        too_large = f"the body has more than {LARGEST:,} bytes; an outcome takes some hundred"
        body = await read_body(request, LARGEST, too_large)
        outcome = _read(request.path_params["id"], body)
        taken = await self.take(outcome, self.whose(request))
        return document(OutcomeTaken(id=outcome.answer, taken=taken))

    def keeper(self) -> AnswerKeeper:
        """What keeps answers.

        Raises:
            NothingKept: nothing does.
        """
        if self._service.answers is None:
            raise NothingKept(
                "this service keeps no answers to be judged; its operator names a database for them in "
                "DERMFED_OUTCOMES_URL"
            )
        return self._service.answers

    def whose(self, request: Request, *, page: bool = False) -> str | None:
        """Whose answers an authorised request may judge: those of its key, or `ANY_KEY`'s for an operator."""
        may_all = request.state.key is not None and self._service.may(request, "operate", page=page)
        return ANY_KEY if may_all else request.state.key

    async def take(self, outcome: Outcome, key: str | None) -> Taken:
        """Records an outcome sent with this key.

        Raises:
            NothingKept, UnknownDiagnosis, OutcomeKnown, InvalidParameter, OutcomesNotTaken: as the names say.
        """
        keeper = self.keeper()
        told = await self._twice(
            lambda: keeper.give(outcome, key),
            lambda told: isinstance(told, UnknownAnswer),
        )
        if isinstance(told, OutcomeRefused):
            raise as_problem(told)
        return told

    async def look(self, id_: str, key: str | None) -> SeenAnswer:
        """What is known of an answer, as far as this key may see it.

        Raises:
            NothingKept, UnknownDiagnosis, OutcomesNotTaken: as their names say.
        """
        keeper = self.keeper()
        seen = await self._twice(lambda: keeper.look(id_, key), lambda seen: seen is None)
        if seen is None:
            raise UnknownDiagnosis(
                "no answer of this number is kept that you may see; look at the number again"
            )
        return seen

    async def _twice(self, work: Callable[[], Found], missed: Callable[[Found], bool]) -> Found:
        """What a thread finds in the database; where that is nothing, what it finds a little later."""
        found = await anyio.to_thread.run_sync(partial(_in_database, work), limiter=self._threads)
        if not missed(found):
            return found
        await anyio.sleep(_AGAIN_SECONDS)
        return await anyio.to_thread.run_sync(partial(_in_database, work), limiter=self._threads)


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

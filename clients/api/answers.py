"""What came back: a diagnosis, other JSON, or a typed error."""

import json
import os
import ssl
from typing import Any

import httpx
from pydantic import ValidationError

from clients.api import errors
from clients.api.diagnosis import Diagnosis
from clients.api.requests import Outcome

BY_STATUS: dict[int, type[errors.ProblemError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    413: errors.TooLarge,
    415: errors.UnsupportedType,
    422: errors.InvalidParameter,
    429: errors.TooManyRequests,
    503: errors.Unavailable,
}
_SHOWN = 500  # characters of what a server says that a message repeats


def answer_of(outcome: Outcome, url: httpx.URL, attempts: int) -> httpx.Response:
    """The answer that the last of `attempts` gave, where the service did what was asked.

    Raises:
        DermFedError: the one that says why there is none.
    """
    if isinstance(outcome, httpx.Response):
        if not outcome.is_success:
            raise _refusal(outcome)
        return outcome
    raise _failure(outcome, url, attempts) from outcome


def read_diagnosis(response: httpx.Response) -> Diagnosis:
    """The diagnosis that an answer holds.

    Raises:
        UnexpectedAnswer: it holds none.
    """
    try:
        return Diagnosis.model_validate_json(response.content, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)
        found = "; ".join(
            ": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"]))) for item in wrong[:3]
        )
        said = f"the answer is not a diagnosis ({found}); {_whence(response)}"
        raise errors.UnexpectedAnswer(said) from error


def read_json(response: httpx.Response) -> Any:
    """The JSON that an answer holds.

    Raises:
        UnexpectedAnswer: no JSON, or neither an object nor an array.
    """
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise errors.UnexpectedAnswer(f"the answer is not JSON; {_whence(response)}") from error
    if not isinstance(said, dict | list):
        raise errors.UnexpectedAnswer(f"the answer is neither an object nor an array; {_whence(response)}")
    return said


def _refusal(response: httpx.Response) -> errors.DermFedError:
    status = response.status_code
    if status < 400:
        return _no_answer(response)
    kind = BY_STATUS.get(status, errors.ServerError if status >= 500 else errors.ProblemError)
    said = _problem(response)
    if said is None:
        detail = "the answer is not the service's own; it may come from a proxy in front of it"
        return kind(status, response.reason_phrase or "refused", detail)
    texts = {
        name: _shown(value, response.request)
        for name, value in said.items()
        if name in ("title", "detail", "type", "request_id") and isinstance(value, str)
    }
    # The status is HTTP's: a body that says another one is wrong.
    return kind(
        status,
        texts.get("title") or response.reason_phrase or "refused",
        texts.get("detail", ""),
        texts.get("type", "about:blank"),
        texts.get("request_id"),
    )


def _no_answer(response: httpx.Response) -> errors.UnexpectedAnswer:
    if response.has_redirect_location:
        place = _shown(response.headers["Location"], response.request)
        return errors.UnexpectedAnswer(
            f"{_place(response.request)} redirects to {place!r}; a picture is not sent on to another place. "
            "If the service is there, give that address as the URL"
        )
    return errors.UnexpectedAnswer(f"the answer has the status {response.status_code}; {_whence(response)}")


def _problem(response: httpx.Response) -> dict[str, Any] | None:
    media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media not in ("application/problem+json", "application/json"):
        return None
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _failure(error: httpx.RequestError, url: httpx.URL, attempts: int) -> errors.DermFedError:
    why = _shown(_reason(error), error.request) or type(error).__name__
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return errors.TimedOut(
            f"{url} was silent for too long ({why}); the service is overloaded, or allow it a longer timeout"
        )
    if isinstance(error, httpx.DecodingError):
        return errors.UnexpectedAnswer(f"the answer of {url} cannot be decompressed ({why})")
    tried = f"{attempts} attempts" if attempts > 1 else "1 attempt"
    if "CERTIFICATE" in why:
        advice = "name the authority that vouches for the service in SSL_CERT_FILE"
    elif isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
        advice = "the connection was dropped; is something else listening there, or is the service stopping?"
    else:
        advice = "check that the service runs there, and the URL's host and port"
    return errors.ConnectionFailed(f"{url} cannot be reached after {tried} ({why}); {advice}")


def _reason(error: BaseException) -> str:
    """What an error says, and what the system says below it where that has another text (anyio's has)."""
    said, below = str(error), error.__cause__ or error.__context__
    while below is not None:
        if isinstance(below, BaseExceptionGroup):  # an attempt for each address of the host
            below = below.exceptions[0]
            continue
        number = below.errno if isinstance(below, OSError) and not isinstance(below, ssl.SSLError) else None
        if number is not None and number > 0 and (why := os.strerror(number)) not in said:
            return f"{said}: {why}"
        below = below.__cause__ or below.__context__
    return said


def _whence(response: httpx.Response) -> str:
    return f"check that {_place(response.request)} is the diagnosis service, and its version"


def _place(request: httpx.Request) -> str:
    """Where a request went, without the parameters: they are about a patient."""
    return str(request.url.copy_with(query=None))


def _shown(text: str, request: httpx.Request) -> str:
    """What a server says, cut short, and without the API key should it repeat that."""
    key = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return (text.replace(key, "[API key]") if key else text)[:_SHOWN]

"""The problem responses: every error of the interface as `application/problem+json` (RFC 9457).

ProblemResponse
├── NotAnImage          400  the bytes are no picture that can be read
├── MalformedRequest    400  the request itself cannot be read
├── KeyMissing          401  no API key, or one that is not good
├── ScopeMissing        403  an API key that is for something else
├── CrossSite           403  a picture sent by a page of another site
├── UnknownModel        404  nothing of this name is served
├── NotAcceptable       406  the answer is asked for in a form that there is not
├── UnknownDiagnosis    404  no diagnosis of this id is kept for the caller
├── NothingKept         404  the service keeps no diagnoses to be judged
├── OutcomeKnown        409  another outcome of this diagnosis is known
├── BodyTooLarge        413  more bytes or pixels than are accepted
├── PictureTooCostly    413  decoding the picture would take too long, or too much memory
├── WrongMediaType      415  not a type, or not the type, that was declared
├── BurnedIn            422  a DICOM file says that texts are burned into its pixels
├── InvalidParameter    422  a parameter cannot be what it is
├── TooManyRequests     429  more requests than a key or an address may make
├── CallerGone          499  the caller closed the connection; the answer is for the log alone
├── NothingServed       503  no model can answer at the moment
├── NoDecoder           503  there is no process to decode a picture in
├── OutcomesNotTaken    503  an outcome cannot be kept at the moment
├── Busy                503  as many requests are waiting as may
├── DeadlinePassed      503  the answer was not ready in time
└── Draining            503  the service is ending
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"

# What a sender wrote may be quoted in a problem; not all of a megabyte.
_LONGEST_DETAIL = 1000


class ProblemResponse(Exception):  # noqa: N818 - RFC 9457's own word
    """Base of the exceptions that a request is answered with as a problem document.

    Attributes:
        status: the HTTP status.
        name: the end of the problem's `type`.
        title: what kind of problem it is, the same each time.
        headers: what the answer carries besides.
    """

    status: int = 500
    name: str = "internal"
    title: str = "The service failed"

    def __init__(self, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """Takes the detail, for the person who has to act on it, and further response headers."""
        super().__init__(detail)
        self.detail = detail
        self.headers = dict(headers or {})

    def document(self, request_id: str) -> dict[str, Any]:
        """The problem document."""
        return {
            "type": f"urn:dermfed:problem:{self.name}",
            "title": self.title,
            "status": self.status,
            # JSON is UTF-8, which has no lone surrogates; a name that somebody sent may hold one.
            "detail": self.detail[:_LONGEST_DETAIL].encode("utf-8", "replace").decode(),
            "request_id": request_id,
        }


class NotAnImage(ProblemResponse):
    """The bytes are no picture that can be read."""

    status, name, title = 400, "not-an-image", "Not an image"


class MalformedRequest(ProblemResponse):
    """The request itself cannot be read."""

    status, name, title = 400, "malformed-request", "The request cannot be read"


class KeyMissing(ProblemResponse):
    """No API key, or one that is not good."""

    status, name, title = 401, "unauthorized", "An API key is needed"


class ScopeMissing(ProblemResponse):
    """An API key that is for something else."""

    status, name, title = 403, "forbidden", "The API key is for something else"


class CrossSite(ProblemResponse):
    """A picture sent by a page of another site."""

    status, name, title = 403, "cross-site", "Sent by another site"


class NotAcceptable(ProblemResponse):
    """The answer is asked for in a form that there is not."""

    status, name, title = 406, "not-acceptable", "There is no such form of the answer"


class TooManyRequests(ProblemResponse):
    """More requests than a key or an address may make."""

    status, name, title = 429, "too-many-requests", "Too many requests"


class UnknownModel(ProblemResponse):
    """Nothing of this name is served."""

    status, name, title = 404, "not-found", "Not found"


class UnknownDiagnosis(ProblemResponse):
    """No diagnosis of this id is kept for the caller."""

    status, name, title = 404, "unknown-diagnosis", "No such diagnosis"


class NothingKept(ProblemResponse):
    """The service keeps no diagnoses to be judged."""

    status, name, title = 404, "nothing-kept", "No diagnoses are kept"


class OutcomeKnown(ProblemResponse):
    """Another outcome of this diagnosis is known."""

    status, name, title = 409, "outcome-known", "Another outcome is known"


class OutcomesNotTaken(ProblemResponse):
    """An outcome cannot be kept at the moment."""

    status, name, title = 503, "outcome-not-kept", "The outcome cannot be kept"


class BodyTooLarge(ProblemResponse):
    """More bytes or pixels than are accepted."""

    status, name, title = 413, "too-large", "The image is too large"


class PictureTooCostly(ProblemResponse):
    """Decoding the picture would take too long or too much memory, or ended its decoder."""

    status, name, title = 413, "too-costly", "The image takes too much to decode"


class WrongMediaType(ProblemResponse):
    """Not a type, or not the type, that was declared."""

    status, name, title = 415, "unsupported-media-type", "Unsupported media type"


class BurnedIn(ProblemResponse):
    """A DICOM file says that texts are burned into its pixels."""

    status, name, title = 422, "burned-in", "Texts are burned into the picture"


class InvalidParameter(ProblemResponse):
    """A parameter cannot be what it is."""

    status, name, title = 422, "invalid-parameter", "Invalid parameter"


class NothingServed(ProblemResponse):
    """No model can answer at the moment."""

    status, name, title = 503, "no-model", "No model can answer"


class CallerGone(ProblemResponse):
    """The caller closed the connection; the answer is for the log and the counters alone."""

    status, name, title = 499, "caller-gone", "The caller went away"


class NoDecoder(ProblemResponse):
    """There is no process to decode a picture in."""

    status, name, title = 503, "no-decoder", "No picture can be decoded"


class Busy(ProblemResponse):
    """As many requests are waiting as may."""

    status, name, title = 503, "busy", "Too many requests are waiting"


class DeadlinePassed(ProblemResponse):
    """The answer was not ready in time."""

    status, name, title = 503, "deadline", "The time is over"


class Draining(ProblemResponse):
    """The service is ending."""

    status, name, title = 503, "draining", "The service is ending"


def problem_response(problem: ProblemResponse, request_id: str) -> JSONResponse:
    """The HTTP response for a raised `ProblemResponse`."""
    body = problem.document(request_id)
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def status_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> ProblemResponse:
    """The problem of an HTTP status without a `ProblemResponse` of its own (404 on a path, 405)."""
    problem = ProblemResponse(detail, headers)
    problem.status, problem.title = status, HTTPStatus(status).phrase
    problem.name = problem.title.lower().replace(" ", "-")
    return problem

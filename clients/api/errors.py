"""What can go wrong when an app asks the service, as one tree.

DermFedError
├── InvalidInput              a URL, key or argument that cannot be used; nothing was sent
│   ├── NotAPicture           the bytes are no picture that the service reads
│   └── UnreadablePicture     the picture's file cannot be read
├── ConnectionFailed          the service cannot be reached, or dropped the connection
├── TimedOut                  the service was silent for too long
├── UnexpectedAnswer          an answer that is not the service's: another server, or another version
└── ProblemError              the service refused; any status without a class of its own below
    ├── BadRequest            400: the bytes are not a picture that can be decoded
    ├── Unauthorized          401: no API key, or one that is unknown or revoked
    ├── Forbidden             403: the key may not do this
    ├── NotFound              404: no such model
    ├── TooLarge              413: the picture has too many bytes or pixels
    ├── UnsupportedType       415: a kind of picture that the service does not take
    ├── InvalidParameter      422: a skin tone, scale, model or number that is not allowed
    ├── TooManyRequests       429: still too many after all retries
    ├── Unavailable           503: no model, or shutting down, still so after all retries
    └── ServerError           any other 5xx
"""
# ruff: noqa: N818 - each reads as what it says where it is caught


class DermFedError(Exception):
    """Base of all errors of this client; its text never holds the API key."""


class InvalidInput(DermFedError, ValueError):
    """A URL, key or argument cannot be used; nothing was sent."""


class NotAPicture(InvalidInput):
    """The bytes are no JPEG, PNG, WebP, HEIC, AVIF or DICOM; nothing was sent."""


class UnreadablePicture(InvalidInput):
    """The picture's file cannot be read; nothing was sent."""


class ConnectionFailed(DermFedError):
    """The service cannot be reached, or dropped the connection each time."""


class TimedOut(DermFedError):
    """The service was silent for too long."""


class UnexpectedAnswer(DermFedError):
    """The answer is not the service's: the URL leads to another server, or the versions do not fit."""


class ProblemError(DermFedError):
    """The service refused (RFC 9457, `application/problem+json`).

    Attributes:
        status: the HTTP status.
        title: what kind of problem, in a few words.
        detail: what was wrong this time; empty where the service said nothing.
        type: the URI of this kind of problem, `about:blank` where it has none.
        request_id: what to tell the service's operator; None where the answer had none.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        type: str = "about:blank",
        request_id: str | None = None,
    ) -> None:
        super().__init__(status, title, detail, type, request_id)  # all of it, so that it can be pickled
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.request_id = request_id

    def __str__(self) -> str:
        said = f"{self.status} {self.title}" + (f": {self.detail}" if self.detail else "")
        return f"{said} (request {self.request_id})" if self.request_id else said


class BadRequest(ProblemError):
    """400: the bytes are not a picture that can be decoded."""


class Unauthorized(ProblemError):
    """401: no API key was given, or one that is unknown or revoked."""


class Forbidden(ProblemError):
    """403: the API key may not do this."""


class NotFound(ProblemError):
    """404: no such model, or the URL leads elsewhere."""


class TooLarge(ProblemError):
    """413: the picture has too many bytes or pixels."""


class UnsupportedType(ProblemError):
    """415: a kind of picture that the service does not take."""


class InvalidParameter(ProblemError):
    """422: a skin tone, scale, model or number that is not allowed."""


class TooManyRequests(ProblemError):
    """429: still too many requests after all retries."""


class Unavailable(ProblemError):
    """503: the service has no model or is shutting down, still so after all retries."""


class ServerError(ProblemError):
    """Any other 5xx: something broke in the service or in front of it."""

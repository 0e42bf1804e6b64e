"""What is sent: one picture as it is, with its parameters in the query; or a case, as a form.

When a request is sent again, and after how long.

Again: after 429 and 503, where no connection could be made, and where it was dropped. Sending a picture twice
does no harm, since the service stores nothing. Never: after any other status, or when time ran out.

Wait number k = 0, 1, … is drawn from [0, min(8, 0.5 · 2^k)] seconds (exponential backoff with full jitter),
and is no shorter than the service asks for in Retry-After, up to 60 seconds.

Whom a client talks to and how patiently, checked before anything is sent.
"""

import math
import os
import random
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypedDict
from urllib.parse import quote

import httpx

from clients.api.errors import InvalidInput, NotAPicture, UnreadablePicture

Image = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO

Value = str | int | float | None

# How a DICOM file without a preamble begins: with its head, or with its data set.
_DICOM = (
    b"\2\0\0\0UL\4\0",
    b"\2\0\1\0OB",
    b"\2\0\x10\0UI",
    *(bytes((8, 0, n, 0)) for n in (0, 1, 5, 8, 18, 22)),
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHOWN = 100  # characters of a wrong path that a message repeats


@dataclass(frozen=True)
class Call:
    """One request, without the service's address.

    Attributes:
        method: of HTTP.
        url: relative to the service's.
        params: what goes into the query.
        headers: besides those of every request.
        content: the body.
    """

    method: str
    url: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)


class Asked(TypedDict, total=False):
    """What is asked with a picture, or in its place; see `DermFed.diagnose`."""

    close_up: Image | None
    dermoscopic: Image | None
    overview: Image | None
    facts: Mapping[str, Value] | None
    skin_tone: str | int | None
    skin_tone_scale: str | None
    model: str | None
    top: int | None
    explain: bool
    frame: int | Literal["all"] | None


_KINDS = ("close_up", "dermoscopic", "overview")
_PARAMETERS = ("skin_tone", "skin_tone_scale", "model", "top", "explain", "frame")


def diagnosis_call(image: Image | None, asked: Asked) -> Call:
    """Ask about one lesion. No picture's file name is part of what is sent.

    One picture is the body, with its parameters in the query. More, or facts, are a form: what is known of a
    patient is in no address. What is None is left out.

    Raises:
        UnreadablePicture: a file cannot be read.
        NotAPicture: none of the formats that the service reads, by its first bytes.
        InvalidInput: a fact has the name of a parameter.
        TypeError: `diagnose` has no such argument.
    """
    every: Mapping[str, Any] = asked
    if wrong := sorted(every.keys() - Asked.__annotations__.keys()):
        raise TypeError(f"diagnose() got an unexpected keyword argument {wrong[0]!r}")
    parameters = {**every, "explain": "true" if every.get("explain") else None}
    given = {name: str(parameters[name]) for name in _PARAMETERS if parameters.get(name) is not None}
    known = {name: str(value) for name, value in (every.get("facts") or {}).items() if value is not None}
    pictures = {"image": image, **{name: every.get(name) for name in _KINDS}}
    contents = {name: read_picture(one) for name, one in pictures.items() if one is not None}
    if not contents:
        raise NotAPicture(f"there is no picture; give one of {', '.join(pictures)}")
    if reserved := sorted(known.keys() & {*_PARAMETERS, *pictures}):
        raise InvalidInput(f"{', '.join(reserved)} is no fact; give it as an argument of its own")
    if list(contents) == ["image"] and not known:
        content = contents["image"]
        return Call("POST", "/v1/diagnoses", given, {"Content-Type": media_type(content)}, content)
    files = {name: ("picture", content, media_type(content)) for name, content in contents.items()}
    form = httpx.Request("POST", "http://form", data={**given, **known}, files=files)
    content_type = {"Content-Type": form.headers["Content-Type"]}
    return Call("POST", "/v1/diagnoses", headers=content_type, content=form.read())


MODELS, READY = Call("GET", "/v1/models"), Call("GET", "/readyz")


def card_call(name: str) -> Call:
    """Ask for one model's card.

    Raises:
        InvalidInput: no name that a URL can hold.
    """
    if not name.strip("."):
        raise InvalidInput(f"a model cannot be called {name!r}; models() lists the names")
    return Call("GET", f"/v1/models/{quote(name, safe='')}/card")


def media_type(content: bytes) -> str:
    """The picture's media type, detected from its first bytes.

    Raises:
        NotAPicture: none of the formats that the service reads.
    """
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    if content[128:132] == b"DICM" or content.startswith(_DICOM):
        return "application/dicom"
    if content[4:8] == b"ftyp":
        brands = {
            content[at : at + 4] for at in (8, *range(16, min(int.from_bytes(content[:4], "big"), 256), 4))
        }
        if brands & {b"heic", b"heix", b"heim", b"heis"}:
            return "image/heic"
        if b"avif" in brands:
            return "image/avif"
    what = f"begins with {bytes(content[:8])!r}" if content else "is empty"
    raise NotAPicture(f"the picture {what}: no JPEG, PNG, WebP, HEIC, AVIF or DICOM; convert it to JPEG")


def read_picture(image: Image) -> bytes:
    """All bytes of a picture, wherever it is given.

    Raises:
        UnreadablePicture: the file cannot be read.
        NotAPicture: a URL, or something that holds no bytes.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image)
    if isinstance(image, str) and _URL.match(image):
        raise NotAPicture(
            f"{image[:_SHOWN]!r} is a URL; a text is always a path on disk. Fetch the picture yourself and "
            "give its bytes"
        )
    if isinstance(image, str | os.PathLike):
        try:
            return Path(image).read_bytes()
        except (OSError, ValueError) as error:  # a ValueError for a path that holds a null character
            reason = getattr(error, "strerror", None) or error
            raise UnreadablePicture(
                f"{os.fspath(image)[:_SHOWN]!r} cannot be read ({reason}); name a picture file"
            ) from error
    return _read_file(image)


def _read_file(image: Any) -> bytes:
    read = getattr(image, "read", None)
    if read is None:
        raise NotAPicture(
            f"the picture is of the type {type(image).__name__}; give its bytes, a path or an open file"
        )
    try:
        content = read()
    except (OSError, ValueError) as error:  # a ValueError for a closed file or text that does not decode
        raise UnreadablePicture(f"the open file cannot be read ({error})") from error
    if not isinstance(content, bytes):
        raise NotAPicture(f"the open file gives {type(content).__name__}; open it in binary mode ('rb')")
    return content


FIRST_SECONDS = 0.5
LONGEST_SECONDS = 8.0
LONGEST_ASKED_SECONDS = 60.0

Outcome = httpx.Response | httpx.RequestError
"""How one attempt ended."""

_AGAIN = (429, 503)
_DROPPED = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)


def wait_before_next(
    outcome: Outcome, done: int, retries: int, draw: Callable[[], float] = random.random
) -> float | None:
    """Seconds to wait before the next attempt; None where `outcome` is final.

    Args:
        outcome: of the last attempt.
        done: how many retries there were.
        retries: how many there may be.
        draw: gives a number in [0, 1).
    """
    if done >= retries or not _may_change(outcome):
        return None
    backoff = draw() * min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(done, 10))
    asked = retry_after(outcome, datetime.now(UTC)) if isinstance(outcome, httpx.Response) else 0.0
    return max(backoff, asked)


def retry_after(response: httpx.Response, now: datetime) -> float:
    """Seconds that Retry-After asks for, in [0, 60]; 0 where it asks for nothing that can be understood."""
    said = response.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+", said):
        return min(float(said), LONGEST_ASKED_SECONDS)
    try:
        moment = parsedate_to_datetime(said)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(max((moment - now).total_seconds(), 0.0), LONGEST_ASKED_SECONDS)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def _may_change(outcome: Outcome) -> bool:
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in _AGAIN
    return isinstance(outcome, _DROPPED)


CONNECT_SECONDS = 10.0  # a service that is there accepts a connection long before


def connection(url: httpx.URL, api_key: str | None, timeout: float, *, own_transport: bool) -> dict[str, Any]:
    """What a client of httpx is made with, whichever way it waits.

    Args:
        url: where the service is.
        api_key: None where the service needs none.
        timeout: seconds of silence that are borne.
        own_transport: whether requests travel another way, which says itself whom it trusts.

    Raises:
        InvalidInput: the key, the number or what the environment trusts cannot be used.
    """
    return {
        "base_url": url,
        "headers": headers(api_key),
        "timeout": time_limits(timeout),
        "verify": True if own_transport else trusted(url),
        "follow_redirects": False,
        "trust_env": False,
    }


def service_url(text: str) -> httpx.URL:
    """The service's address, which may have a path in front of `/v1`.

    Raises:
        InvalidInput: it is no http or https URL, or carries more than an address.
    """
    try:
        url = httpx.URL(text)
        url.raw_host.decode("ascii").encode("idna")  # as a connection will; a UnicodeError is a ValueError
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise InvalidInput(f"the service's URL is no URL ({error}); write http://127.0.0.1:3000") from error
    if url.userinfo:
        raise InvalidInput("the service's URL holds a name or a password; give the API key as api_key")
    if url.scheme not in ("http", "https") or not url.host or "%" in url.host or (url.port or 1) > 65535:
        raise InvalidInput(
            f"the service's URL is {text!r}; it starts with http:// or https:// and names a host"
        )
    if url.query or url.fragment:
        raise InvalidInput(f"the service's URL is {text!r}; leave out everything from the first ? or #")
    return url


def headers(api_key: str | None) -> dict[str, str]:
    """What is said with every request.

    Raises:
        InvalidInput: the key cannot be sent in a header.
    """
    said = {"Accept": "application/json", "User-Agent": f"dermfed/{_version()}"}
    if api_key is None:
        return said
    # The key itself stays out of the message.
    if not api_key or not all("!" <= character <= "~" for character in api_key):
        raise InvalidInput(
            "the API key is empty, or holds a space, a line break or a character outside ASCII; "
            "give it as it was handed out, or None where the service needs none"
        )
    return {**said, "Authorization": f"Bearer {api_key}"}


def time_limits(timeout: float) -> httpx.Timeout:
    """Seconds of silence that are borne; fewer for making a connection.

    Raises:
        InvalidInput: not a positive number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise InvalidInput(f"timeout is {timeout!r}; it is a positive number of seconds")
    return httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))


def retry_count(retries: int) -> int:
    """How often a request is sent again.

    Raises:
        InvalidInput: not a whole number from 0 on.
    """
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InvalidInput(f"retries is {retries!r}; it is a whole number, 0 for a single attempt")
    return retries


def trusted(url: httpx.URL) -> ssl.SSLContext | bool:
    """Which authorities may vouch for the service: those of `SSL_CERT_FILE` or `SSL_CERT_DIR`, or the usual.

    Raises:
        InvalidInput: the environment names a file that holds no certificates.
    """
    if url.scheme != "https":
        return True
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        raise InvalidInput(
            f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({error})"
        ) from error


def _version() -> str:
    try:
        return version("dermfed")
    except PackageNotFoundError:  # the folder was copied into an app
        return "unknown"

"""Whom a client talks to and how patiently, checked before anything is sent."""

import math
import ssl
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx

from clients.api.errors import InvalidInput

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

"""Authentication by API key, and what a key's scopes allow; without any key, only this machine may ask.

Whether a key was ever made decides, not whether one is still good: revoking the last key closes the
service instead of opening it.

Programs send a key as `Authorization: Bearer KEY`. A browser's own dialogue knows HTTP Basic alone, so
pages, and only they, take a key as its password, under any user name.
"""

import base64
import hmac
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from registry.keys import key_digest
from registry.records import ApiKey, Scope
from serving.protocol.problems import CrossSite, KeyMissing, NothingServed, ScopeMissing

_BEARER: Final = 'Bearer realm="dermfed"'
_BASIC: Final = 'Basic realm="dermfed", charset="UTF-8"'

_LONGEST_ADDRESS: Final = 64
"""Letters of a caller's address or host that are looked at; longer ones are none of this machine's."""

# What a proxy adds: a caller behind one is not on this machine, whatever the socket says.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


class UnknownKey(KeyMissing):
    """The key that was sent does not exist: a mistake, or a guess."""


class KeyLacksScope(ScopeMissing):
    """A valid key without the scope that the request needs.

    Attributes:
        key: that key.
    """

    def __init__(self, key: ApiKey, scope: Scope) -> None:
        super().__init__(
            f"the API key {key.id} lacks the scope `{scope}`: it has {', '.join(key.scopes)}; make one that "
            f"has it with `dermfed-registry keys add NAME --scope {scope}`",
            {"WWW-Authenticate": f'{_BEARER}, error="insufficient_scope", scope="{scope}"'},
        )
        self.key = key


def authorise(
    request: Request, keys: Sequence[ApiKey] | None, scope: Scope, *, page: bool = False
) -> ApiKey | None:
    """The valid API key of a request with the scope it needs; None where no key is needed.

    From then on `request.state.key` is the key's id, or None, also where the scope is missing.

    Args:
        request: who asks.
        keys: every key there is, expired and revoked ones too; None until the registry has been read.
        scope: the scope that the request needs.
        page: whether it is a page, for which a browser may send the key as the password of HTTP Basic; it
            asks its user where none is good.

    Raises:
        KeyMissing: no key, one that is expired or revoked, or a caller elsewhere while there are no keys.
        UnknownKey: a key that does not exist.
        KeyLacksScope: a valid key without the scope.
        NothingServed: the keys could not be read from the registry.
    """
    if keys is None:
        raise NothingServed("the registry cannot be read, so no key can be checked; try again later")
    asking = {"WWW-Authenticate": _BASIC if page else _BEARER}
    how = "as the password, with any user name" if page else "as `Authorization: Bearer KEY`"
    if not keys:
        if on_this_machine(request):
            request.state.key = None
            return None
        raise KeyMissing(
            (
                "the service has no API keys and answers this machine alone, asked as localhost; make one "
                f"with `dermfed-registry keys add NAME` and send it {how}"
            ),
            asking,
        )
    secret = _secret(request, page)
    if not secret:
        raise KeyMissing(f"send your API key {how}", asking)
    digest = key_digest(secret)
    key = next((one for one in keys if hmac.compare_digest(one.sha256, digest)), None)
    if key is None:
        raise UnknownKey("the API key is not known; ask whoever runs the service", asking)
    if key.revoked is not None:
        raise KeyMissing("the API key was revoked; ask whoever runs the service", asking)
    if key.expired(datetime.now(UTC)):
        raise KeyMissing(
            (
                "the API key has expired or was rotated; use the one in its place, or ask whoever runs the "
                "service"
            ),
            asking,
        )
    request.state.key = key.id
    if scope not in key.scopes:
        raise KeyLacksScope(key, scope)
    return key


def refuse_other_sites(request: Request, allowed: Sequence[str] = ()) -> None:
    """Refuses a request that a page of another site makes a browser send (CSRF).

    Args:
        request: the request.
        allowed: origins of other sites whose pages may send requests.

    Raises:
        CrossSite: by the browser's headers, a page of another site sent it.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        ours = site in ("same-origin", "none")
    else:
        ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if not ours and origin not in allowed:
        raise CrossSite("it was sent by a page of another site; open this service's own page")


def _secret(request: Request, page: bool) -> str:
    """The key that was sent, for a page also as a password (RFC 7617); empty where none can be read."""
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return sent.strip()
    if not page or scheme.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(sent.strip(), validate=True).decode()
    except ValueError:  # binascii's and Unicode's errors are some
        return ""
    return pair.partition(":")[2].strip()


def on_this_machine(request: Request) -> bool:
    """Whether the caller is on the service's own machine, without a proxy between.

    Neither a proxy, nor a web page from elsewhere, whose own name was made to point to this machine:
    a browser still sends that name as `Host`.
    """
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        host = urlsplit("//" + request.headers.get("host", "localhost")).hostname or ""
    except ValueError:
        return False
    return _is_loopback(request.client.host) and (host == "localhost" or _is_loopback(host))


def _is_loopback(address: str) -> bool:
    return len(address) <= _LONGEST_ADDRESS and _means_this_machine(address)


@lru_cache(256)  # asked at every request, and mostly of the same two
def _means_this_machine(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

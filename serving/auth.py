"""Who may ask: a key once the registry holds any, and this machine alone while it holds none.

Whether a key was ever made decides, not whether one is still good: revoking the last key closes the
service instead of opening it.
"""

import hmac
import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request

from registry.keys import key_digest
from registry.records import ApiKey
from serving.problems import KeyMissing, NothingServed

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="dermfed"'}

# What a proxy adds: a caller behind one is not on this machine, whatever the socket says.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


def authorise(request: Request, keys: Sequence[ApiKey] | None) -> ApiKey | None:
    """The key of a request that may go on; None where none is needed.

    Raises:
        KeyMissing: no key, a wrong one, a revoked one, or a caller elsewhere while there are no keys.
        NothingServed: the registry could not tell which keys there are.
    """
    if keys is None:
        raise NothingServed("the registry cannot be read, so no key can be checked; try again later")
    if not keys:
        if on_this_machine(request):
            return None
        raise KeyMissing(
            "the service has no API keys and answers this machine alone, asked as localhost; make one with "
            "`dermfed-registry keys add NAME` and send it as `Authorization: Bearer KEY`",
            _CHALLENGE,
        )
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise KeyMissing("send your API key as `Authorization: Bearer KEY`", _CHALLENGE)
    digest = key_digest(secret.strip())
    for key in keys:
        if hmac.compare_digest(key.sha256, digest):
            if key.revoked is not None:
                break
            return key
    raise KeyMissing("the API key is not known or was revoked; ask whoever runs the service", _CHALLENGE)


def on_this_machine(request: Request) -> bool:
    """Whether the caller is on the service's own machine, and nobody else speaks through it.

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
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False

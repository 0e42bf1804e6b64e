"""Rate limits: how often an API key may ask, and how often an address may send a key that does not exist.

Every counted response says what is left of the limit (`RateLimit-Policy` and `RateLimit`,
draft-ietf-httpapi-ratelimit-headers), and a refusal when to ask again (`Retry-After`). A caller
with a good key is never refused for what somebody at the same address has sent, as behind a proxy all come
from one.

Each worker counts by itself, and admits its share of the rate.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from registry.records import ApiKey
from serving.access.gcra import MINUTE, Rate, RateLimiter, RateLimitResult
from serving.metrics import Metrics
from serving.protocol.problems import TooManyRequests
from serving.settings import ServeSettings

UNKNOWN_KEY_RATE: Final = Rate(per_minute=30, burst=30)
"""How often an address may send a key that does not exist."""

_SECOND: Final = MINUTE // 60
_NETWORK_BITS: Final = 64  # of IPv6, that is what one caller is given


class Limits:
    """The rate limits of one worker of a service."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._keys = RateLimiter()
        self._guesses = RateLimiter()

    def count(self, request: Request, key: ApiKey | None) -> None:
        """Counts an authorised request, and leaves its rate limit headers in `request.state.headers`.

        Raises:
            TooManyRequests: its key, or without keys this machine, has asked too often.
        """
        rate = self._rate(key)
        if rate is None:
            return
        share = self._share(rate)
        result = self._keys.spend("open" if key is None else key.id, share)
        headers = rate_limit_headers(share, result)
        if not result.admitted:
            who = "this machine" if key is None else f"the API key {key.id}"
            why = f"{who} may ask {rate.per_minute} times a minute, and {rate.burst} times at once"
            raise self._refusal(result, why, headers)
        request.state.headers = headers

    def count_unknown_key(self, request: Request) -> None:
        """Counts a request with a key that does not exist, by its address.

        Raises:
            TooManyRequests: its address has sent too many.
        """
        result = self._guesses.spend(network_address(request), self._share(UNKNOWN_KEY_RATE))
        if not result.admitted:
            why = "too many API keys that are not known came from this address; use one that is"
            raise self._refusal(result, why)

    def _refusal(
        self, result: RateLimitResult, why: str, headers: Mapping[str, str] | None = None
    ) -> TooManyRequests:
        self._metrics.limited()
        again = _seconds(result.wait)
        detail = f"{why}; ask again in {again} s"
        return TooManyRequests(detail, {**(headers or {}), "Retry-After": str(again)})

    def _rate(self, key: ApiKey | None) -> Rate | None:
        settings = self._settings
        per_minute = settings.open_per_minute
        if key is not None:
            per_minute = key.per_minute or settings.requests_per_minute
        return Rate(per_minute, min(settings.burst, per_minute)) if per_minute else None

    def _share(self, rate: Rate) -> Rate:
        """What one of the workers admits."""
        workers = self._settings.workers
        return Rate(-(-rate.per_minute // workers), -(-rate.burst // workers))


def rate_limit_headers(rate: Rate, result: RateLimitResult) -> dict[str, str]:
    """The `RateLimit` headers: the policy, and what is left of it."""
    return {
        "RateLimit-Policy": f'"key";q={rate.burst};w={_seconds(rate.window)}',
        "RateLimit": f'"key";r={result.remaining};t={_seconds(result.restored)}',
    }


def network_address(request: Request) -> str:
    """The address that a caller is counted by: IPv4 as it is, IPv6 by its /64 network."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.IPv6Network((int(address), _NETWORK_BITS), strict=False))


def _seconds(nanoseconds: int) -> int:
    """Nanoseconds as whole seconds, rounded up and at least 1."""
    return max(1, -(-nanoseconds // _SECOND))

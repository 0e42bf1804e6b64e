"""Rate limits: how often an API key may ask, and how often an address may send a key that does not exist.

Every counted response says what is left of the limit (`RateLimit-Policy` and `RateLimit`,
draft-ietf-httpapi-ratelimit-headers), and a refusal when to ask again (`Retry-After`). A caller with a valid
key is never refused because of other callers at the same address: behind a proxy, all callers share one.

Each worker counts by itself, and admits its share of the rate.

The generic cell rate algorithm (GCRA, ITU-T I.371, the virtual scheduling algorithm) needs one number for
each name: the theoretical arrival time, TAT. With T the time between two requests at the rate, and room for
`burst` at once, a request at time t conforms if

    max(TAT, t) + T <= t + burst · T

and then TAT becomes max(TAT, t) + T. This is a bucket of `burst` tokens that gets one every T.

Times are whole nanoseconds of the monotonic clock. A name whose TAT has passed is as if it had never been
seen. Once there are `MOST_NAMES`, a new one takes the place of the one that was admitted longest ago, and
continues from its TAT where that has not passed: too little is then admitted, never a burst more.
"""

import ipaddress
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from registry.records import ApiKey
from serving.metrics import Metrics
from serving.protocol.problems import TooManyRequests
from serving.settings import ServeSettings

MINUTE: Final = 60_000_000_000
"""A minute in nanoseconds."""

MOST_NAMES: Final = 10_000
"""Names that are counted at once."""


@dataclass(frozen=True)
class Rate:
    """A rate limit: requests per minute, and how many of them may come at once (the burst)."""

    per_minute: int
    burst: int

    @property
    def interval(self) -> int:
        """T: the time between two requests at the rate; nanoseconds."""
        return -(-MINUTE // self.per_minute)

    @property
    def window(self) -> int:
        """How long a spent burst takes to come back; nanoseconds."""
        return self.burst * self.interval


@dataclass(frozen=True)
class RateLimitResult:
    """Whether a request conforms to its rate, and what is left of the burst.

    Attributes:
        admitted: whether the request conforms.
        remaining: how many more could follow at once.
        wait: until when one would be admitted again; nanoseconds, 0 for at once.
        restored: until when the whole burst is back; nanoseconds.
    """

    admitted: bool
    remaining: int
    wait: int
    restored: int


def conform(stored: int, now: int, rate: Rate) -> tuple[RateLimitResult, int]:
    """Applies GCRA to a request at `now`: the result for a stored TAT, and the TAT after it.

    A TAT that this rate could not have led to (of another rate, or from before the machine was started) is
    cut to the farthest that it could.
    """
    arrival = min(max(stored, now), now + rate.window)
    after = arrival + rate.interval
    admitted = after <= now + rate.window
    if not admitted:
        after = arrival
    left = now + rate.window - after
    wait = max(0, rate.interval - left)
    return RateLimitResult(admitted, left // rate.interval, wait, after - now), after


class RateLimiter:
    """Rate limits any number of names in this process; safe to share between threads.

    ```python
    limiter = RateLimiter()
    limiter.spend("key-7", Rate(per_minute=60, burst=10)).admitted  # True
    ```
    """

    def __init__(self) -> None:
        self._arrivals: dict[str, int] = {}
        self._lock = threading.Lock()

    def spend(self, name: str, rate: Rate) -> RateLimitResult:
        """Counts one request of this name, if the rate admits it."""
        with self._lock:
            full = name not in self._arrivals and len(self._arrivals) >= MOST_NAMES
            place = next(iter(self._arrivals)) if full else name
            result, after = conform(self._arrivals.get(place, 0), time.monotonic_ns(), rate)
            if result.admitted:
                self._arrivals.pop(place, None)
                self._arrivals[name] = after  # the last to be replaced
            return result


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
        self._metrics.refused.labels("limited").inc()
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

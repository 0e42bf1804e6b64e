"""Rate limits: how often an API key may ask, and how often an address may send a key that does not exist.

Every counted response says what is left of the limit (`RateLimit-Policy` and `RateLimit`,
draft-ietf-httpapi-ratelimit-headers), and a refusal when to ask again (`Retry-After`). A caller
with a good key is never refused for what somebody at the same address has sent, as behind a proxy all come
from one.

The counts that all workers share are in a file, and a thread of its own reads and writes it. Where that takes
longer than `PATIENCE`, as on a disk that hangs, a request is counted by this worker alone.
"""

import ipaddress
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from starlette.requests import Request

from registry.records import ApiKey
from serving.access.gcra import MINUTE, Rate, RateLimiter, RateLimitResult
from serving.metrics.metrics import Metrics
from serving.metrics.multiprocess import SHARED_FOLDER
from serving.one_thread import LineFullError, NotYetError, OneThread
from serving.protocol.problems import TooManyRequests
from serving.settings import ServeSettings

UNKNOWN_KEY_RATE: Final = Rate(per_minute=30, burst=30)
"""How often an address may send a key that does not exist."""

PATIENCE: Final = 0.25
"""How long a request waits for the counts of all workers; seconds."""

_WAITING: Final = 1000  # requests whose counts may wait for a disk that hangs; one more is not counted there
_SECOND: Final = MINUTE // 60
_NETWORK_BITS: Final = 64  # of IPv6, that is what one caller is given


class Limits:
    """The rate limits of one service, shared by its workers.

    Attributes:
        health_issues: why the workers cannot share them.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics, folder: Path | None) -> None:
        """Counts in files of this folder, or without one in this process alone."""
        self._settings = settings
        self._metrics = metrics
        self._keys = RateLimiter(folder and folder / "keys")
        self._guesses = RateLimiter(folder and folder / "guesses")
        self._folder = folder
        self._thread = OneThread("rates", _WAITING, PATIENCE)

    @property
    def health_issues(self) -> list[str]:
        """Why the limits cannot be shared by all workers; empty where they are."""
        found = {limiter.health_issue for limiter in (self._keys, self._guesses)}
        if seconds := self._thread.stuck_for:
            found.add(
                f"rates are not shared by the workers: {self._folder} has not answered for {seconds:.0f} s, "
                "so each counts by itself; look at its disk"
            )
        return sorted(found - {""})

    async def count(self, request: Request, key: ApiKey | None) -> None:
        """Counts an authorised request, and leaves its rate limit headers in `request.state.headers`.

        Raises:
            TooManyRequests: its key, or without keys this machine, has asked too often.
        """
        rate = self._rate(key)
        if rate is None:
            return
        result = await self._spend(self._keys, "open" if key is None else key.id, rate)
        headers = rate_limit_headers(rate, result)
        if not result.admitted:
            who = "this machine" if key is None else f"the API key {key.id}"
            why = f"{who} may ask {rate.per_minute} times a minute, and {rate.burst} times at once"
            raise self._refusal(result, why, headers)
        request.state.headers = headers

    async def count_unknown_key(self, request: Request) -> None:
        """Counts a request with a key that does not exist, by its address.

        Raises:
            TooManyRequests: its address has sent too many.
        """
        result = await self._spend(self._guesses, network_address(request), UNKNOWN_KEY_RATE)
        if not result.admitted:
            why = "too many API keys that are not known came from this address; use one that is"
            raise self._refusal(result, why)

    def close(self) -> None:
        """Closes the files; a disk that hangs is not waited for."""
        if not self._thread.close(PATIENCE):
            self._keys.close()
            self._guesses.close()

    async def _spend(self, limiter: RateLimiter, name: str, rate: Rate) -> RateLimitResult:
        if not limiter.may_block:
            return limiter.spend(name, rate)
        try:
            return await self._thread.run(partial(limiter.spend, name, rate))
        except (NotYetError, LineFullError):
            return limiter.spend_alone(name, rate)

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


def shared_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of files that all workers of this service share; None where it is one process.

    It is beside the one in which they count for Prometheus, which whoever starts the workers names to all.
    """
    counts = environ.get(SHARED_FOLDER)
    return Path(counts).absolute().parent / "dermfed-rates" if counts else None


def _seconds(nanoseconds: int) -> int:
    """Nanoseconds as whole seconds, rounded up and at least 1."""
    return max(1, -(-nanoseconds // _SECOND))

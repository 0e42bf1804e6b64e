"""How often a key may ask, and how often an address may send a key that there is not.

The answer to a request that was counted tells its caller how he stands (`RateLimit-Policy` and `RateLimit`,
draft-ietf-httpapi-ratelimit-headers), and one that was refused when to ask again (`Retry-After`). A caller
with a good key is never refused for what somebody at the same address has sent, as behind a proxy all come
from one.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.requests import Request

from registry.records import ApiKey
from serving.metrics import Metrics
from serving.problems import TooManyRequests
from serving.rates import MINUTE, Rate, Rates, Verdict
from serving.settings import ServeSettings
from serving.totals import SHARED_FOLDER

GUESSES: Final = Rate(per_minute=30, burst=30)
"""How often an address may send a key that there is not."""

_SECOND: Final = MINUTE // 60
_NETWORK_BITS: Final = 64  # of IPv6, that is what one caller is given


class Limits:
    """The limits of one service, which its workers keep together.

    Attributes:
        troubles: what is in the way of keeping them.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics, folder: Path | None) -> None:
        """Counts in files of this folder, or without one in this process alone."""
        self._settings = settings
        self._metrics = metrics
        self._keys = Rates(folder and folder / "keys")
        self._guesses = Rates(folder and folder / "guesses")

    @property
    def troubles(self) -> list[str]:
        """What an operator has to know."""
        return sorted({rates.trouble for rates in (self._keys, self._guesses)} - {""})

    def count(self, request: Request, key: ApiKey | None) -> None:
        """Counts a request that may go on, and leaves in `request.state.headers` how its caller stands.

        Raises:
            TooManyRequests: its key, or without keys this machine, has asked too often.
        """
        rate = self._rate(key)
        if rate is None:
            return
        verdict = self._keys.spend("open" if key is None else key.id, rate)
        told = standing(rate, verdict)
        if not verdict.admitted:
            who = "this machine" if key is None else f"the API key {key.id}"
            raise self._refusal(
                verdict,
                f"{who} may ask {rate.per_minute} times a minute, and {rate.burst} times at once",
                told,
            )
        request.state.headers = told

    def guessed(self, request: Request) -> None:
        """Counts a key that there is not.

        Raises:
            TooManyRequests: its address has sent too many.
        """
        verdict = self._guesses.spend(caller(request), GUESSES)
        if not verdict.admitted:
            raise self._refusal(
                verdict, "too many API keys that are not known came from this address; use one that is"
            )

    def close(self) -> None:
        """Lets go of the files."""
        self._keys.close()
        self._guesses.close()

    def _refusal(self, verdict: Verdict, why: str, told: Mapping[str, str] | None = None) -> TooManyRequests:
        self._metrics.limited()
        again = _seconds(verdict.wait)
        return TooManyRequests(f"{why}; ask again in {again} s", {**(told or {}), "Retry-After": str(again)})

    def _rate(self, key: ApiKey | None) -> Rate | None:
        settings = self._settings
        per_minute = settings.open_per_minute
        if key is not None:
            per_minute = key.per_minute or settings.requests_per_minute
        return Rate(per_minute, min(settings.burst, per_minute)) if per_minute else None


def standing(rate: Rate, verdict: Verdict) -> dict[str, str]:
    """The fields that tell a caller what he may do and what is left of it."""
    return {
        "RateLimit-Policy": f'"key";q={rate.burst};w={_seconds(rate.window)}',
        "RateLimit": f'"key";r={verdict.remaining};t={_seconds(verdict.restored)}',
    }


def caller(request: Request) -> str:
    """The network address of whoever asks; of IPv6 the part that stands for one caller."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return str(getattr(address, "ipv4_mapped", None) or address)
    return str(ipaddress.IPv6Network((int(address), _NETWORK_BITS), strict=False))


def shared_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """A folder that all workers of this service see; None where there is none, as in one process.

    It is beside the one in which they count for Prometheus, which whoever starts the workers names to all.
    """
    counts = environ.get(SHARED_FOLDER)
    return Path(counts).absolute().parent / "dermfed-rates" if counts else None


def _seconds(nanoseconds: int) -> int:
    """Whole seconds, after which it has surely come true."""
    return max(1, -(-nanoseconds // _SECOND))

"""When a request is sent again, and after how long.

Again: after 429 and 503, where no connection could be made, and where it was dropped. Sending a picture twice
does no harm, since the service stores nothing. Never: after any other status, or when time ran out.

Wait number k = 0, 1, … is drawn from [0, min(8, 0.5 · 2^k)] seconds (exponential backoff with full jitter),
and is no shorter than the service asks for in Retry-After, up to 60 seconds.
"""

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

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

"""A rate limiter: the generic cell rate algorithm (GCRA).

GCRA (ITU-T I.371, the virtual scheduling algorithm) needs one number for each name: the theoretical
arrival time, TAT. With T the time between two requests at the rate, and room for `burst` at once, a request
at time t conforms if

    max(TAT, t) + T <= t + burst · T

and then TAT becomes max(TAT, t) + T. This is a bucket of `burst` tokens that gets one every T.

Times are whole nanoseconds of the monotonic clock. A name whose TAT has passed is as if it had never been
seen. Once there are `MOST_NAMES`, a new one takes the place of the one that was admitted longest ago, and
continues from its TAT where that has not passed: too little is then admitted, never a burst more.
"""

import threading
import time
from dataclasses import dataclass
from typing import Final

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

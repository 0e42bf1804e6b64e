"""The time by which keys expire: a wall clock that is set back brings no key back.

The wall clock is held against one that nobody sets, from the moment on when the two were last believed to go
together. Until both have gone apart for `BELIEVED_SECONDS` in the same way, the later of the two counts: a
clock that is set back makes no expired key good, and one that jumps ahead for a moment refuses keys for that
moment. After that the wall clock is believed: it was put right.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

BELIEVED_SECONDS: Final = 3600.0
"""How long the wall clock has to say another time than expected before it is believed."""

_ALIKE: Final = timedelta(seconds=60)


def _now() -> datetime:
    return datetime.now(UTC)


class SteadyClock:
    """A clock for deadlines of keys; safe to share between threads."""

    def __init__(
        self, now: Callable[[], datetime] = _now, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Believes the wall clock as it is now.

        Args:
            now: the wall clock.
            monotonic: a clock that nobody sets; seconds.
        """
        self._now, self._monotonic = now, monotonic
        self._lock = threading.Lock()
        self._wall, self._at = now(), monotonic()
        self._apart: tuple[timedelta, float] | None = None  # by how much, and since when

    def now(self) -> datetime:
        """The later of what the wall clock says and what it should say."""
        with self._lock:
            wall, at = self._now(), self._monotonic()
            expected = self._wall + timedelta(seconds=at - self._at)
            apart = wall - expected
            if timedelta() <= apart <= _ALIKE:
                self._wall, self._at, self._apart = wall, at, None
            elif self._apart is None or abs(apart - self._apart[0]) > _ALIKE:
                self._apart = apart, at
            elif at - self._apart[1] >= BELIEVED_SECONDS:
                self._wall, self._at, self._apart = wall, at, None
                return wall
            return max(wall, expected)

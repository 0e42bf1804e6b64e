"""Who is there: a sign of life from every site that is asked or away, every few seconds."""

import threading
import time
from collections.abc import Callable, Mapping

from training.engines.nvflare.lines import Line, LineError, SiteRefusedError
from training.engines.nvflare.pulse import Pulse, time_on_the_way

BEATS = 6  # signs of life that a site may miss before it is taken to be away


class Attendance:
    """Which sites are there.

    Args:
        lines: the sites that can be reached, by name.
        silence: seconds without a sign of life after which a site is away.
        clock: seconds, rising.
    """

    def __init__(
        self,
        lines: Mapping[str, Line],
        silence: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines = lines
        self._silence = silence
        self._clock = clock
        self._lock = threading.Lock()
        self._heard = {name: clock() for name in lines}
        self._away: dict[str, str] = {}
        self._never: set[str] = set()
        self._busy = dict(self._heard)
        self._answer = dict.fromkeys(lines, 0)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, args=(name, line), daemon=True, name=f"listen-{name}")
            for name, line in lines.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def away(self) -> dict[str, str]:
        """The sites that are away, and why."""
        with self._lock:
            return dict(self._away)

    def lost(self, name: str, reason: str) -> None:
        """Note that a site did not answer; it is not asked again until it gives a sign of life."""
        with self._lock:
            self._away[name] = reason

    def never(self, name: str, reason: str) -> None:
        """Note that a site takes no part in this session, whatever sign of life it gives."""
        with self._lock:
            self._never.add(name)
            self._away[name] = reason

    def lost_on_the_way(self, name: str, since: float, question: int, again: int = 0) -> bool:
        """Whether a site that is there has nothing to do, although it was asked something long enough ago.

        Its question or its answer went down with a connection; it may be asked again, and answers the same.

        Args:
            name: the site.
            since: when something was last seen to move towards it or from it, by this attendance's clock.
            question: bytes that went with the call.
            again: how often it was asked anew; a line that is slower than we trust gets more time each time.
        """
        with self._lock:
            if name not in self._heard or name in self._away:
                return False
            idle = self._heard[name] - max(since, self._busy[name])
            return idle > (again + 1) * time_on_the_way(self._silence, question + self._answer[name])

    def now(self) -> float:
        """The time by this attendance's clock."""
        return self._clock()

    def close(self) -> None:
        """Listen no more."""
        self._ended.set()

    def _listen(self, name: str, line: Line) -> None:
        beat = self._silence / BEATS
        while not self._ended.wait(beat):
            try:
                pulse = line.ping(beat)
            except (LineError, SiteRefusedError) as error:
                self._unheard(name, f"{error}")
            else:
                self._heard_of(name, pulse)

    def _heard_of(self, name: str, pulse: Pulse) -> None:
        with self._lock:
            self._heard[name] = self._clock()
            self._answer[name] = pulse.answer
            if pulse.busy:
                self._busy[name] = self._heard[name]
            if name not in self._never:
                self._away.pop(name, None)

    def _unheard(self, name: str, reason: str) -> None:
        with self._lock:
            silent = self._clock() - self._heard[name]
            if silent >= self._silence and name not in self._away:
                self._away[name] = f"not heard of for {silent:.0f} seconds ({reason})"

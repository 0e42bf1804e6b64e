"""Liveness of the sites: each is pinged for a heartbeat every few seconds and is offline when none comes."""

import threading
import time
from collections.abc import Callable, Mapping

from training.engines.flare.calls import (
    Channel,
    ChannelError,
    Heartbeat,
    SiteRefusedError,
    transit_timeout,
)

BEATS = 6  # heartbeats that a site may miss before it is taken to be offline


class LivenessTracker:
    """Tracks which sites are reachable, by their heartbeats.

    Args:
        channels: the sites that can be reached, by name.
        heartbeat_timeout: seconds without a heartbeat after which a site is offline.
        clock: seconds, rising.
    """

    def __init__(
        self,
        channels: Mapping[str, Channel],
        heartbeat_timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._heartbeat_timeout = heartbeat_timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._heard = {name: clock() for name in channels}
        self._offline: dict[str, str] = {}
        self._excluded: set[str] = set()
        self._busy = dict(self._heard)
        self._answer = dict.fromkeys(channels, 0)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, args=(name, channel), daemon=True, name=f"listen-{name}")
            for name, channel in channels.items()
        ]
        for thread in self._threads:
            thread.start()

    @property
    def offline(self) -> dict[str, str]:
        """The sites that are offline, and why."""
        with self._lock:
            return dict(self._offline)

    def mark_offline(self, name: str, reason: str) -> None:
        """Note that a site did not answer; it is not asked again until its next heartbeat."""
        with self._lock:
            self._offline[name] = reason

    def exclude(self, name: str, reason: str) -> None:
        """Note that a site takes no part in this session, whatever heartbeats come."""
        with self._lock:
            self._excluded.add(name)
            self._offline[name] = reason

    def lost_in_transit(self, name: str, since: float, request: int, again: int = 0) -> bool:
        """Whether a request or its answer was lost: the site is reachable and idle, though asked long ago.

        The request may be sent again; the answer is the same.

        Args:
            name: the site.
            since: when something was last seen to move towards it or from it, by this tracker's clock.
            request: bytes that went with the call.
            again: how often the request was sent again; each time the timeout is longer, for slow links.
        """
        with self._lock:
            if name not in self._heard or name in self._offline:
                return False
            idle = self._heard[name] - max(since, self._busy[name])
            return idle > (again + 1) * transit_timeout(self._heartbeat_timeout, request + self._answer[name])

    def now(self) -> float:
        """The time by this tracker's clock."""
        return self._clock()

    def close(self) -> None:
        """Stop pinging."""
        self._ended.set()

    def _listen(self, name: str, channel: Channel) -> None:
        beat = self._heartbeat_timeout / BEATS
        while not self._ended.wait(beat):
            try:
                heartbeat = channel.ping(beat)
            except (ChannelError, SiteRefusedError) as error:
                self._not_heard_from(name, f"{error}")
            else:
                self._heard_from(name, heartbeat)

    def _heard_from(self, name: str, heartbeat: Heartbeat) -> None:
        with self._lock:
            self._heard[name] = self._clock()
            self._answer[name] = heartbeat.answer
            if heartbeat.busy:
                self._busy[name] = self._heard[name]
            if name not in self._excluded:
                self._offline.pop(name, None)

    def _not_heard_from(self, name: str, reason: str) -> None:
        with self._lock:
            silent = self._clock() - self._heard[name]
            if silent >= self._heartbeat_timeout and name not in self._offline:
                self._offline[name] = f"not heard of for {silent:.0f} seconds ({reason})"

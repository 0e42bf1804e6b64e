"""A channel that is shut while its site is refused: nothing is sent, and what comes back is dropped.

FLARE lets a hospital that is disabled register no more, but knows nothing of a job that runs: what its
process there still says comes through until the job ends. So each call looks before and after.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from training.engines.flare.channel import Channel, Heartbeat
from training.engines.flare.payload import Payload

Result = TypeVar("Result")


@dataclass(frozen=True)
class GuardedChannel:
    """A channel to a site that may be refused at any instant; implements `Channel`.

    To the engine a site that is refused is one that is away: it misses its heartbeats, its answers do not
    come, and it is there again when it is refused no longer.

    Attributes:
        channel: to the site.
        refuse: raises `ChannelError` while the site is refused.
    """

    channel: Channel
    refuse: Callable[[], None]

    def greet(self, handshake: str, seconds: float) -> str:
        """See `Channel`."""
        return self._guarded(lambda: self.channel.greet(handshake, seconds))

    def introduce(self, seconds: float) -> str:
        """See `Channel`."""
        return self._guarded(lambda: self.channel.introduce(seconds))

    def join(self, roster: str, seconds: float) -> str:
        """See `Channel`."""
        return self._guarded(lambda: self.channel.join(roster, seconds))

    def ask(
        self, header: str, payload: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """See `Channel`."""
        return self._guarded(lambda: self.channel.ask(header, payload, seconds, alive))

    def ping(self, seconds: float) -> Heartbeat:
        """See `Channel`."""
        return self._guarded(lambda: self.channel.ping(seconds))

    def _guarded(self, call: Callable[[], Result]) -> Result:
        self.refuse()
        result = call()
        self.refuse()
        return result

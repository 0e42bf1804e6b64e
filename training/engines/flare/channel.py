"""The channel to one site: the calls that reach it, and the errors of a call that does not."""

import json
from collections.abc import Callable
from typing import Protocol

from training.config import FrozenConfig
from training.engines.flare.payload import Payload
from training.errors import TrainingError

REFUSED = "refused"  # the key under which a site says, as JSON, why it does not do what it was asked
SLOWEST = 250_000  # bytes a second (2 Mbit/s) that a site's link is trusted to carry


class Heartbeat(FrozenConfig):
    """A site's answer to a ping.

    Attributes:
        busy: whether a question is there that it has not answered yet.
        answer: bytes of its newest answer that came with the call, and may still be on their way.
    """

    busy: bool
    answer: int = 0


def transit_timeout(silence: float, bytes_: int) -> float:
    """Seconds after which a message that did not arrive is taken for lost.

    silence + bytes / SLOWEST: a connection that is reset loses what it carried, and reports it to nobody.

    Args:
        silence: the job's `engine.network.silence`.
        bytes_: of question and answer.
    """
    return silence + bytes_ / SLOWEST


class ChannelError(TrainingError):
    """A site was not reached: a question did not come through, or its answer did not."""


class SiteRefusedError(TrainingError):
    """A site was reached and refused to answer; its text gives the reason."""


class StoppedError(TrainingError):
    """The run was stopped from outside; it continues from its checkpoint."""


class Channel(Protocol):
    """The calls to one site; they may come from several threads and block until there is an answer."""

    def greet(self, handshake: str, seconds: float) -> str:
        """The site's handshake or refusal, as JSON.

        Raises:
            ChannelError: the site was not reached in time.
            SiteRefusedError: it was, and failed.
        """

    def introduce(self, seconds: float) -> str:
        """The site's client properties or its refusal, as JSON; raises like `greet`."""

    def join(self, roster: str, seconds: float) -> str:
        """Send the site the roster that all agreed on; raises like `greet`."""

    def ask(
        self, header: str, payload: Payload, seconds: float, alive: Callable[[], None]
    ) -> tuple[str, Payload]:
        """The header and payload of the answer to a question; raises like `greet`.

        `alive` is called now and then while the question or its answer is being moved.
        """

    def ping(self, seconds: float) -> Heartbeat:
        """A heartbeat, which a site gives while it trains, too; raises like `greet`."""


def raise_refusal(text: str) -> None:
    """Raise a site's refusal, where its answer is one.

    Raises:
        SiteRefusedError: with the site's reason.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SiteRefusedError(f"it answered what is no JSON: {error}") from error
    if isinstance(content, dict) and REFUSED in content:
        raise SiteRefusedError(f"{content[REFUSED]}")

"""A line to one site: how a question gets there, and what may go wrong on the way."""

from collections.abc import Callable
from typing import Protocol

from training.body import Body
from training.engines.nvflare.pulse import Pulse
from training.errors import TrainingError


class LineError(TrainingError):
    """A question did not come through, or its answer did not."""


class SiteRefusedError(TrainingError):
    """The site was reached and would not answer; its text says why."""


class StoppedError(TrainingError):
    """The run was stopped from outside; it continues from its checkpoint."""


class Line(Protocol):
    """One site. Calls may come from several threads and block until there is an answer."""

    def greet(self, greeting: str, seconds: float) -> str:
        """The site's greeting or refusal, as JSON.

        Raises:
            LineError: the site was not reached in time.
            SiteRefusedError: it was, and failed.
        """

    def introduce(self, seconds: float) -> str:
        """What the site tells of its data, or its refusal, as JSON; raises like `greet`."""

    def join(self, roster: str, seconds: float) -> str:
        """Tell the site what all agreed on; raises like `greet`."""

    def ask(self, header: str, body: Body, seconds: float, alive: Callable[[], None]) -> tuple[str, Body]:
        """The header and body of the answer to a question; raises like `greet`.

        `alive` is called now and then while the question or its answer is being moved.
        """

    def ping(self, seconds: float) -> Pulse:
        """A sign of life, which a site gives while it trains, too; raises like `greet`."""

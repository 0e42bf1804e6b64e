"""One pending request to a site: the question, its attempts, and the answer that was delivered."""

from dataclasses import dataclass

from training.engines.flare.wire import Stamp
from training.messages.message import Answer, Broadcast, Failure, Update


@dataclass
class PendingRequest:
    """A question of a round to one site, and its answer once it is settled.

    Attributes:
        question: what is asked.
        stamp: what its answer must share with it.
        kept: see `training.engines.flare.wire.QuestionHeader`.
        answer: what came, once it is settled.
        attempt: which time it is asked; what an earlier attempt delivers is dropped.
        in_flight: whether it was sent and may still be answered.
        since: when it was asked, or a chunk of it or of its answer was last moved, by the clock of the
            liveness tracker; None while others to the same site come first.
    """

    question: Broadcast
    stamp: Stamp
    kept: int
    answer: Answer | None = None
    attempt: int = 0
    in_flight: bool = False
    since: float | None = None

    @property
    def answered_or_in_flight(self) -> bool:
        """Whether it is answered, or may still be."""
        return isinstance(self.answer, Update) or self.in_flight

    def leave_out(self, reason: str) -> None:
        """Settle it without an answer."""
        self.answer = Failure(self.question.client, self.question.track, reason)


@dataclass(frozen=True)
class Delivery:
    """What a sending thread brings back: an answer, or why there is none."""

    request: PendingRequest
    attempt: int
    answer: Answer | None  # None where the site was not reached
    reason: str = ""

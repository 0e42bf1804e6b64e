"""A question on its way, and what a thread brings back of it."""

from dataclasses import dataclass

from training.messages import Answer, Broadcast, Failure, Update
from training.wire import Stamp


@dataclass
class Errand:
    """One question of a round, and what became of it.

    Attributes:
        question: what is asked.
        stamp: what its answer must share with it.
        kept: see `training.wire.QuestionHeader`.
        answer: what came, once it is settled.
        attempt: which time it is asked; what an earlier time brings is of no interest.
        out: whether it is under way.
        since: when it was asked, or a piece of it or of its answer was last moved, by the attendance's clock;
            None while others to the same site come first.
    """

    question: Broadcast
    stamp: Stamp
    kept: int
    answer: Answer | None = None
    attempt: int = 0
    out: bool = False
    since: float | None = None

    @property
    def hopeful(self) -> bool:
        """Whether it is answered, or under way."""
        return isinstance(self.answer, Update) or self.out

    def leave_out(self, reason: str) -> None:
        """Settle it without an answer."""
        self.answer = Failure(self.question.client, self.question.track, reason)


@dataclass(frozen=True)
class Arrival:
    """What a thread brings back."""

    errand: Errand
    attempt: int
    answer: Answer | None  # None where the site was not reached
    reason: str = ""
    seconds: float = 0.0

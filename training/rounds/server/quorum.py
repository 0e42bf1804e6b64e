"""The quorum of a question outside the rounds: how many answers it needs, and who gave none.

A stage asks its clients several such questions. A client that did not answer one is asked none of those that
follow in the stage, so that its figures are all of the same clients; who is missing, and why, is told beside
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil

from training.data.dataset import SERVER
from training.errors import QuorumError
from training.messages.message import Broadcast, Failure


def say_nothing(text: str) -> None:
    """Where nobody reads along."""


def quorum_of(share: float, asked: int) -> int:
    """How many of so many clients are a share of them, one at least."""
    return max(1, ceil(share * asked - 1e-9))


@dataclass
class Quorum:
    """What share of its clients must answer a stage's questions outside its rounds.

    Attributes:
        share: of those that a question is for.
        missing: the clients that did not answer one of them, and why.
        log: takes one line for each.
    """

    share: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)
    log: Callable[[str], None] = say_nothing

    def to_ask(self, broadcasts: Sequence[Broadcast]) -> list[Broadcast]:
        """The questions to clients that have answered so far."""
        return [broadcast for broadcast in broadcasts if broadcast.client not in self.missing]

    def settle(self, broadcasts: Sequence[Broadcast], silent: Sequence[Failure]) -> None:
        """Go on without those that did not answer, or not at all.

        Args:
            broadcasts: the question to everybody, those that are missing among them.
            silent: who did not answer now, and why.

        Raises:
            QuorumError: naming each client that is missing, and why; none of them is left out then.
        """
        reasons = {**self.missing, **{failure.client: failure.reason for failure in silent}}
        asked = {broadcast.client for broadcast in broadcasts}
        gone = {client: reason for client, reason in reasons.items() if client in asked}
        needed = quorum_of(self.share, len(asked))
        if gone and (len(asked) - len(gone) < needed or SERVER in gone):
            raise QuorumError(
                f"`{broadcasts[0].ask}` of {broadcasts[0].stage} needs "
                f"{'every client' if self.share == 1 else f'{needed} of {len(asked)} clients'}. "
                f"{'; '.join(f'{client}: {reason}' for client, reason in gone.items())}. "
                "Mend what they report and continue with --resume"
                f"{'' if self.share == 1 else ', or lower evaluation.quorum'}"
            )
        for failure in silent:
            if failure.client not in self.missing:
                self.missing[failure.client] = failure.reason
                self.log(
                    f"{broadcasts[0].stage} goes on without {failure.client}, in none of its figures from "
                    f"`{broadcasts[0].ask}` on: {failure.reason}"
                )

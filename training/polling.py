"""Asking every client one question outside the rounds, and counting what travels."""

from collections.abc import Sequence
from dataclasses import dataclass

from training.engines.base import Engine
from training.errors import MessageError, QuorumError
from training.evaluation import Blocks, add_blocks, unpack_blocks
from training.messages import Answer, Broadcast, Failure, Shapes, Update, check_update, tensor_bytes


@dataclass
class Traffic:
    """Bytes sent to the clients (down) and by them (up)."""

    down: int = 0
    up: int = 0

    def count(self, broadcasts: Sequence[Broadcast], answers: Sequence[Answer]) -> None:
        """Add one exchange of messages."""
        self.down += sum(tensor_bytes(broadcast.tensors) for broadcast in broadcasts)
        self.up += sum(tensor_bytes(answer.tensors) for answer in answers if isinstance(answer, Update))


def ask_all(
    engine: Engine, broadcasts: Sequence[Broadcast], traffic: Traffic, shapes: Shapes | None = None
) -> list[Update]:
    """Answers to questions that every client must answer.

    Raises:
        QuorumError: naming each client that did not answer, and why.
        MessageError: when an answer is not one to its question.
    """
    answers = engine.run_round(broadcasts)
    traffic.count(broadcasts, answers)
    silent = [f"{answer.client}: {answer.reason}" for answer in answers if isinstance(answer, Failure)]
    if silent:
        raise QuorumError(
            f"`{broadcasts[0].ask}` of {broadcasts[0].stage} needs every client. {'; '.join(silent)}. "
            "Mend what they report and continue with --resume"
        )
    updates = [answer for answer in answers if isinstance(answer, Update)]
    for update, broadcast in zip(updates, broadcasts, strict=True):
        check_update(update, broadcast, shapes)
    return updates


def ask_blocks(
    engine: Engine, broadcasts: Sequence[Broadcast], traffic: Traffic
) -> tuple[Blocks, list[Failure]]:
    """Counts added up over the clients that gave them, and the clients that did not."""
    answers = engine.run_round(broadcasts)
    traffic.count(broadcasts, answers)
    total: Blocks = {}
    silent: list[Failure] = []
    for broadcast, answer in zip(broadcasts, answers, strict=True):
        if isinstance(answer, Failure):
            silent.append(answer)
            continue
        try:
            check_update(answer, broadcast)
            total = add_blocks([total, unpack_blocks(answer)])
        except MessageError as error:
            silent.append(Failure(broadcast.client, broadcast.track, str(error)))
    return total, silent

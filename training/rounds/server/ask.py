"""Requests outside the rounds: how many must answer, sums under masks, and the bytes that travel."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil

from training.data.dataset import SERVER, Split
from training.errors import MessageError, QuorumError
from training.messages import (
    Answer,
    Broadcast,
    Engine,
    Failure,
    Shapes,
    Update,
    check_update,
    named,
    tensor_bytes,
)
from training.privacy.secagg.sums import EVERYBODY, CohortError, sum_answers
from training.privacy.settings import SecureAggregationConfig
from training.progress import bytes_in_words
from training.rounds.census import CensusBounds
from training.rounds.requests import Blocks, EvaluateRequest, add_blocks, unpack_blocks


def say_nothing(text: str) -> None:
    """Log nothing."""


def quorum_of(share: float, asked: int) -> int:
    """How many of so many clients are a share of them, one at least."""
    return max(1, ceil(share * asked - 1e-9))


@dataclass
class Quorum:
    """What share of its clients must answer a stage's requests outside its rounds.

    Attributes:
        share: of those that a request is for.
        missing: the clients that did not answer one of them, and why.
        log: takes one line for each.
    """

    share: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)
    log: Callable[[str], None] = say_nothing

    def to_ask(self, broadcasts: Sequence[Broadcast]) -> list[Broadcast]:
        """The requests to clients that have answered so far."""
        return [broadcast for broadcast in broadcasts if broadcast.client not in self.missing]

    def settle(self, broadcasts: Sequence[Broadcast], silent: Sequence[Failure]) -> None:
        """Go on without those that did not answer, or not at all.

        Args:
            broadcasts: the request to all clients, those that are missing among them.
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


@dataclass
class Traffic:
    """Bytes sent to the hospitals (down) and by them (up); the server is the coordinator's own client."""

    down: int = 0
    up: int = 0

    def count(self, broadcasts: Sequence[Broadcast], answers: Sequence[Answer]) -> None:
        """Add one exchange of messages."""
        self.down += sum(tensor_bytes(b.tensors) for b in broadcasts if b.client != SERVER)
        self.up += sum(
            tensor_bytes(a.tensors) for a in answers if isinstance(a, Update) and a.client != SERVER
        )


def traffic_text(up: int, down: int) -> str:
    """The bytes that travelled, as text for the log."""
    return f"{bytes_in_words(up)} up, {bytes_in_words(down)} down"


def bytes_by_client(
    broadcasts: Sequence[Broadcast], answers: Sequence[Answer], *, beside: str
) -> dict[str, dict[str, int]]:
    """Bytes of the tensors that went to each client, of those whose name starts with `beside`, and back."""
    found: dict[str, dict[str, int]] = {}
    for broadcast, answer in zip(broadcasts, answers, strict=True):
        entry = found.setdefault(broadcast.client, {"down": 0, "beside": 0, "up": 0})
        entry["down"] += tensor_bytes(broadcast.tensors)
        entry["beside"] += tensor_bytes(named(broadcast.tensors, beside))
        if isinstance(answer, Update):
            entry["up"] += tensor_bytes(answer.tensors)
    return found


def ask_all(
    engine: Engine,
    broadcasts: Sequence[Broadcast],
    traffic: Traffic,
    shapes: Shapes | None = None,
    quorum: Quorum | None = None,
) -> list[Update]:
    """Answers to requests that every client must answer, or as many as a quorum says.

    Raises:
        QuorumError: naming each client that did not answer, and why.
        MessageError: when an answer is not one to its request, and every client must answer.
    """
    quorum = quorum or Quorum()
    asked = quorum.to_ask(broadcasts)
    answers = engine.run_round(asked)
    traffic.count(asked, answers)
    silent = [answer for answer in answers if isinstance(answer, Failure)]
    updates: list[Update] = []
    if quorum.share == 1:
        quorum.settle(broadcasts, silent)
    for answer, broadcast in zip(answers, asked, strict=True):
        if isinstance(answer, Failure):
            continue
        try:
            check_update(answer, broadcast, shapes)
        except MessageError as error:
            if quorum.share == 1:
                raise
            silent.append(Failure(broadcast.client, broadcast.track, f"{error}"))
        else:
            updates.append(answer)
    quorum.settle(broadcasts, silent)
    return [update for update in updates if update.client not in quorum.missing]


def ask_counted(engine: Engine, traffic: Traffic, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
    """Answers as they come, with their bytes counted."""
    answers = engine.run_round(broadcasts)
    traffic.count(broadcasts, answers)
    return answers


def ask_sums(
    engine: Engine,
    broadcasts: Sequence[Broadcast],
    traffic: Traffic,
    masks: SecureAggregationConfig,
    quorum: Quorum | None = None,
) -> list[Update]:
    """As `ask_all`, of all clients together: one answer about each model, their sum under masks.

    A sum without a client is begun again by those that are left: hospitals take part in one over others than
    before only where they have let none be unmasked.

    Raises:
        QuorumError: naming each client that is not in it, and why.
    """
    quorum = quorum or Quorum()
    while True:
        asked = quorum.to_ask(broadcasts)
        updates, silent = sum_answers(partial(ask_counted, engine, traffic), asked, masks)
        quorum.settle(broadcasts, silent)
        if not silent:
            return updates


def each_blocks(
    engine: Engine,
    broadcasts: Sequence[Broadcast],
    traffic: Traffic,
    bounds: CensusBounds | None,
    silent: list[Failure],
) -> Iterator[tuple[str, Blocks]]:
    """Counts of each client in the clear, one after another: those of a thousand are hundreds of megabytes.

    The clients that gave none are added to `silent`.
    """
    for broadcast, answer in zip(broadcasts, ask_counted(engine, traffic, broadcasts), strict=True):
        if isinstance(answer, Failure):
            silent.append(answer)
            continue
        try:
            check_update(answer, broadcast)
            blocks = unpack_blocks(answer)
            if bounds is not None:
                bounds.refuse_counts(answer.client, [answer.client], split_of(broadcast), blocks)
            yield broadcast.client, blocks
        except MessageError as error:
            silent.append(Failure(broadcast.client, broadcast.track, str(error)))


def ask_blocks(
    engine: Engine,
    broadcasts: Sequence[Broadcast],
    traffic: Traffic,
    masks: SecureAggregationConfig | None = None,
    bounds: CensusBounds | None = None,
) -> tuple[Blocks, list[Failure]]:
    """Counts added up over the clients that gave them, and the clients that did not.

    Args:
        engine: asks them.
        broadcasts: the requests, of kind `EvaluateRequest`.
        traffic: the bytes are added to it.
        masks: how counts are summed under masks; None for in the clear.
        bounds: what counts may say at most; a client with more is left out.

    Raises:
        QuorumError: under masks, when too few answer or stay.
    """
    if masks is not None:
        try:
            sums, gone = sum_answers(partial(ask_counted, engine, traffic), broadcasts, masks)
        except CohortError as error:  # these counts are there already, or never
            return {}, [Failure(EVERYBODY, broadcast.track, f"{error}") for broadcast in broadcasts[:1]]
        total = add_blocks(unpack_blocks(update) for update in sums)
        try:
            refuse_sum(total, broadcasts, bounds)
        except MessageError as error:  # of a sum it cannot be known whose part is wrong
            return {}, [*gone, Failure(EVERYBODY, broadcasts[0].track, f"{error}")]
        return total, gone
    silent: list[Failure] = []
    each = each_blocks(engine, broadcasts, traffic, bounds, silent)
    return add_blocks(blocks for _, blocks in each), silent


def split_of(broadcast: Broadcast) -> Split:
    """Which pictures an `EvaluateRequest` asks about."""
    return EvaluateRequest.model_validate(broadcast.options).split


def refuse_sum(blocks: Blocks, broadcasts: Sequence[Broadcast], bounds: CensusBounds | None) -> None:
    """Refuse a sum of counts of more pictures than all who were asked hold together.

    Raises:
        MessageError: saying what is counted and what is held.
    """
    if bounds is None or not broadcasts:
        return
    clients = list(dict.fromkeys(broadcast.client for broadcast in broadcasts))
    who = f"the sum of {', '.join(clients)}"
    bounds.refuse_counts(who, clients, split_of(broadcasts[0]), blocks)

"""A canary before the first round: each client trains two batches, and nothing of it stays or leaves.

A long run over a network begins with it, so that a batch that is too large for a hospital's memory or a
broken driver shows in a minute and not in the middle of the night. The question carries what the first `fit`
will carry and is answered on its way, with the first batches that `fit` would draw; then it ends, before
anything is sent, kept or counted. Every draw follows from the seed and the round, so that the first round is
the same with and without it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from training.algorithms.client import Client, State, StateStore
from training.errors import DataError, QuorumError, TrainingError, public_message, tell
from training.messages.message import Broadcast, Engine, Failure, Update, reply

LOGGER = logging.getLogger("dermfed.canary")
CANARY = "canary"
STEPS = 2  # batches of each client


@dataclass(frozen=True)
class ReadOnlyStore:
    """A client's state store that can be read and discards what is saved; a `StateStore`."""

    store: StateStore

    def load(self, client: str, stage: str, round: int) -> State | None:
        """As the store itself."""
        return self.store.load(client, stage, round)

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Nothing is kept."""


def answer_canary(
    question: Broadcast, client: Client, answer: Callable[[Broadcast, Client], Update], fit: str
) -> Update:
    """The client's half: an empty answer where two batches could be trained.

    Args:
        question: with what the first `fit` would carry.
        client: who is asked.
        answer: the stage's.
        fit: the name of the question that trains.

    Raises:
        TrainingError: when they could not, and why.
    """
    try:
        answer(replace(question, ask=fit), replace(client, steps=STEPS, store=ReadOnlyStore(client.store)))
    except TrainingError:
        raise
    except Exception as error:  # whatever it is, to find it is what this is for
        LOGGER.warning("the canary found an error", exc_info=error)
        raise tell(DataError(f"{client.id} cannot train: {public_message(error)}")) from error
    return reply(question)


def send_canary(
    questions: Sequence[Broadcast], engine: Engine, min_clients: int | None, log: Callable[[str], None]
) -> None:
    """The coordinator's half: ask every client that trains, and name those that cannot.

    What it moves is in no round's bytes.

    Args:
        questions: of the first round, of all models.
        engine: takes them there.
        min_clients: how many must be fit for each model; all where it is None.
        log: takes one log line.

    Raises:
        QuorumError: too few can train.
    """
    answers = engine.run_round([replace(question, ask=CANARY) for question in questions])
    unfit = [answer for answer in answers if isinstance(answer, Failure)]
    reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in unfit)
    for track in dict.fromkeys(question.track for question in questions):
        asked = sum(question.track == track for question in questions)
        fit = asked - sum(failure.track == track for failure in unfit)
        needed = asked if min_clients is None else min(min_clients, asked)
        if fit < max(needed, 1):
            raise QuorumError(
                f"the canary before round 1 of {questions[0].stage} ({track}) had every client train {STEPS} "
                f"batches: {fit} of {asked} can, {needed} are needed (engine.min_clients). {reasons}. Mend "
                "what they report, e.g. with a smaller batch_size, and continue with --resume; lower "
                "engine.min_clients; or begin without this look (engine.network.canary: false)"
            )
    text = (
        f"{questions[0].stage} canary: {STEPS} batches at {len(questions) - len(unfit)} of {len(questions)}"
    )
    log(f"{text}; cannot train: {reasons}" if unfit else text)

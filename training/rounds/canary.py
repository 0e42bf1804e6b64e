"""A canary before the first round: each client trains two batches, and nothing of it stays or leaves.

A long run over a network begins with it, so that a batch that is too large for a hospital's memory or a
broken driver shows in a minute and not in the middle of the night. The request carries what the first `fit`
will carry and is answered on its way, with the first batches that `fit` would draw; then it ends, before
anything is sent, kept or counted. Every draw follows from the seed and the round, so that the first round is
the same with and without it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from training.algorithms.client import Client, State, StateStore
from training.errors import DataError, QuorumError, TrainingError, public, public_message
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
    request: Broadcast, client: Client, answer: Callable[[Broadcast, Client], Update], fit: str
) -> Update:
    """The client's half: an empty answer where two batches could be trained.

    Args:
        request: with what the first `fit` would carry.
        client: who is asked.
        answer: the stage's.
        fit: the name of the request that trains.

    Raises:
        TrainingError: when they could not, and why.
    """
    try:
        answer(replace(request, ask=fit), replace(client, steps=STEPS, store=ReadOnlyStore(client.store)))
    except TrainingError:
        raise
    except Exception as error:  # whatever it is, to find it is what this is for
        LOGGER.warning("the canary found an error", exc_info=error)
        raise public(DataError(f"{client.id} cannot train: {public_message(error)}")) from error
    return reply(request)


def send_canary(
    requests: Sequence[Broadcast], engine: Engine, min_clients: int | None, log: Callable[[str], None]
) -> None:
    """The coordinator's half: ask every client that trains, and name those that cannot.

    What it moves is in no round's bytes.

    Args:
        requests: of the first round, of all models.
        engine: takes them there.
        min_clients: how many must be fit for each model; all where it is None.
        log: takes one log line.

    Raises:
        QuorumError: too few can train.
    """
    answers = engine.run_round([replace(request, ask=CANARY) for request in requests])
    unfit = [answer for answer in answers if isinstance(answer, Failure)]
    reasons = "; ".join(f"{failure.client}: {failure.reason}" for failure in unfit)
    for track in dict.fromkeys(request.track for request in requests):
        asked = sum(request.track == track for request in requests)
        fit = asked - sum(failure.track == track for failure in unfit)
        needed = asked if min_clients is None else min(min_clients, asked)
        if fit < max(needed, 1):
            raise QuorumError(
                f"the canary before round 1 of {requests[0].stage} ({track}) had every client train {STEPS} "
                f"batches: {fit} of {asked} can, {needed} are needed (engine.min_clients). {reasons}. Mend "
                "what they report, e.g. with a smaller batch_size, and continue with --resume; lower "
                "engine.min_clients; or begin without this look (engine.network.canary: false)"
            )
    text = f"{requests[0].stage} canary: {STEPS} batches at {len(requests) - len(unfit)} of {len(requests)}"
    log(f"{text}; cannot train: {reasons}" if unfit else text)

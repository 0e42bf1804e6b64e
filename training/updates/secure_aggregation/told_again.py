"""Counts that a client gave to sums, kept so that a question that comes again is answered the same.

After patients withdrew a client has nothing to tell of some subgroups. Where a round or a stage is done again
from a checkpoint, all others answer as they did: the sum of before less the one of after would be the counts
of this client alone. So the same question gets the same counts, as a sum that was told before.

Departures: a question that differs in a byte is another; kept are those of the two newest rounds of each
stage, model and kind of question.
"""

from dataclasses import replace

from training.algorithms.client import Client
from training.algorithms.client_state import State
from training.messages.message import Update, named, prefixed

ROUND = "round"


def told_again(update: Update, client: Client, asked: str) -> Update:
    """The answer to a question, or what the client gave where it was asked the same before patients withdrew.

    Args:
        update: the answer, before it is withheld.
        client: whose.
        asked: the digest of the question.
    """
    key = (
        f"summed/{update.stage}/{update.track}/{update.ask}"  # below no stage, so that nothing takes it back
    )
    state = client.store.load(client.id, key, update.round + 1)
    known = state.tensors if state is not None and state.scalars.get(ROUND) == update.round else {}
    before = named(known, f"{asked}/")
    if before:
        return update if client.told is None else replace(update, tensors=before)
    entries = {**known, **prefixed(update.tensors, f"{asked}/")}
    client.store.save(client.id, key, update.round, State(entries, {ROUND: update.round}))
    return update

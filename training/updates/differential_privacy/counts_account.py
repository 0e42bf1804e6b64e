"""The account of noise on counts: what a client told of each split and subgroup, and what is left.

A patient is in one split and one subgroup, so that answers about others cost it nothing. Each part of an
answer costs one unit (`registry.bundle.counts.counting`); how many units a split has follows from the job,
and from them the variance. What would be more is refused.

The same question, as a resumed run puts it, gets the same answer with the same noise, which tells nothing
new and costs nothing. A question is the same if its every byte is, the weights that it is about among them.
Accounts and answers are in the client's own store, written before an answer leaves: first what a question
costs each subgroup, a file each, then the answer. Stopped in between, it is paid for once.
"""

from collections.abc import Sequence

from training.algorithms.client import Client, State
from training.data.dataset import Split
from training.errors import MessageError
from training.messages.message import Tensors

ACCOUNT, ANSWER = "privacy/counts", "privacy/answers"  # in the client's store
LAST = 2**31 - 1  # after every entry


def told_before(client: Client, question: str) -> Tensors | None:
    """The answer that this very question got; None where it got none."""
    kept = client.store.load(client.id, f"{ANSWER}/{question}", LAST)
    return None if kept is None else kept.tensors


def spend(
    client: Client,
    question: str,
    split: Split,
    subgroups: Sequence[str],
    units: int,
    planned: int,
    answer: Tensors,
) -> None:
    """Put an answer on the account; saved before it leaves.

    Args:
        client: whose.
        question: its digest (`training.messages.question_digest`).
        split: of the pictures.
        subgroups: all that the question is about.
        units: what it costs each of them.
        planned: how many units the split has.
        answer: with noise, to be kept.

    Raises:
        MessageError: when it would cost more than is left.
    """
    accounts = {name: {**spent_on(client, split, name), question: float(units)} for name in subgroups}
    for name, entries in accounts.items():
        total = sum(entries.values())
        if total > planned:
            raise MessageError(
                f"{client.id} tells no more of its {split} pictures of {name}: all of the job's answers cost "
                f"{planned} units of noise, {total - units:.0f} are spent and this would cost {units} "
                "(privacy.counts). A run that is begun anew, or goes on with other weights than it had, asks "
                "more than the job promised"
            )
    for name, entries in accounts.items():
        client.store.save(client.id, _account(split, name), len(entries), State({}, entries))
    client.store.save(client.id, f"{ANSWER}/{question}", 1, State(dict(answer)))


def spent_on(client: Client, split: Split, subgroup: str) -> dict[str, float]:
    """The units that each question cost a subgroup so far."""
    kept = client.store.load(client.id, _account(split, subgroup), LAST)
    return {} if kept is None else dict(kept.scalars)


def _account(split: Split, subgroup: str) -> str:
    return f"{ACCOUNT}/{split}/{subgroup}"

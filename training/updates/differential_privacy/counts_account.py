"""The account of noise on counts: what a client told of each split and subgroup, and what is left.

A patient is in one split and one subgroup, so that answers about others cost it nothing. Each part of an
answer costs one unit (`registry.bundle.counts.noisy`); how many units a split has follows from the job, and
from them the variance. What would be more is refused.

The account and the answers lie together in one file of the client's own store, written before an answer
leaves: the same question, as a resumed run puts it, gets the same answer with the same noise, which tells
nothing new. A question is the same if its every byte is, the weights that it is about among them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from training.algorithms.client import Client
from training.algorithms.client_state import State
from training.data.dataset import Split
from training.errors import MessageError
from training.messages.message import Broadcast, Tensors

COUNTS = "privacy/counts"  # in the client's store
ENTRIES = "entries"  # how often the account was written, which orders its files
LAST = 2**31 - 1  # after every entry
SPENT = "spent "


def question_of(broadcast: Broadcast) -> str:
    """A digest of all of a question, but for whom it is for."""
    about = [broadcast.stage, broadcast.round, broadcast.ask, broadcast.track, dict(broadcast.options)]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, tensor in sorted(broadcast.tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def told_before(client: Client, question: str) -> dict[str, Tensor] | None:
    """The answer that this very question got; None where it got none."""
    kept = _read(client)
    if not any(name == f"{question}|" for name in kept.tensors):
        return None
    return {
        name.removeprefix(f"{question}|"): tensor
        for name, tensor in kept.tensors.items()
        if name.startswith(f"{question}|") and name != f"{question}|"
    }


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
        question: as `question_of` gives it.
        split: of the pictures.
        subgroups: all that the question is about.
        units: what it costs each of them.
        planned: how many units the split has.
        answer: with noise, to be kept.

    Raises:
        MessageError: when it would cost more than is left.
    """
    kept = _read(client)
    spent = dict(kept.scalars)
    for name in subgroups:
        entry = f"{SPENT}{split}/{name}"
        spent[entry] = spent.get(entry, 0.0) + units
        if spent[entry] > planned:
            raise MessageError(
                f"{client.id} tells no more of its {split} pictures of {name}: the job's answers cost "
                f"{planned} units of noise, {spent[entry] - units:.0f} are spent and this would cost {units} "
                "(privacy.counts). Was the run begun anew with clients that keep what they told?"
            )
    entries = spent.get(ENTRIES, 0.0) + 1
    told = {f"{question}|{name}": tensor for name, tensor in answer.items()}
    mark = {f"{question}|": torch.zeros(1, dtype=torch.uint8)}
    client.store.save(
        client.id, COUNTS, int(entries), State({**kept.tensors, **mark, **told}, {**spent, ENTRIES: entries})
    )


def spent_of(client: Client) -> Mapping[str, int]:
    """Units spent so far, by `split/subgroup`."""
    return {
        name.removeprefix(SPENT): int(units)
        for name, units in _read(client).scalars.items()
        if name.startswith(SPENT)
    }


def _read(client: Client) -> State:
    return client.store.load(client.id, COUNTS, LAST) or State()

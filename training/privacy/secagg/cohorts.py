"""Cohorts: whose sum of which pictures a client has let be unmasked, so that no other sum of them ever is.

A coordinator that has the sum of {A, B, C} and that of {A, B} has the counts of C. So a client keeps in its
store, for all of a run, over whom each sum was that it gave its shares for, and takes part in a second one
over the same clients alone.

- Counts of the test and the calibration split, and sums over the training split: one cohort for the whole
  run, whatever stage asks, and all of it or nothing. The same pictures are asked about many times.
- Counts of the validation split: one for each round of a stage; its model is another in the next.
- Weights: one for each round, model and request.

The coordinator's own client is in no cohort: it hides no other, and may come and go.

A sum is unmasked when t clients have noted its cohort. Any other sum is then of clients that have not: it
lacks t of the first, and t is never below `fewest`. That holds of clients that keep to this, however the
coordinator asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from training.algorithms.client import Client, State
from training.data.dataset import SERVER
from training.errors import MessageError
from training.messages.message import Broadcast, Tensors, request_digest
from training.privacy.secagg.messages import json_tensor, read_json

LEDGER = "sums"  # in a client's store; below no stage, so that nothing takes it back
ENTRIES = "entries"
BY_ROUND = "validation"  # the split of which the cohort may change from round to round


@dataclass(frozen=True)
class Topic:
    """What a sum is of.

    Attributes:
        name: sums of the same name are over the same clients.
        counts: whether pictures are counted, and not weights: all are asked the same, and count once.
        whole: whether it is of all that began it, or not at all.
        asked: a digest of the request where all are asked the same, else empty.
    """

    name: str
    counts: bool = False
    whole: bool = False
    asked: str = ""


def topic_of(request: Broadcast) -> Topic:
    """The topic of a request whose answers are summed."""
    split = request.options.get("split")
    if split is None:
        return Topic(f"{request.stage}/{request.track}/{request.ask}/{request.round}")
    asked = request_digest(request)
    if split == BY_ROUND:
        return Topic(f"{split}/{request.stage}/{request.round}", counts=True, asked=asked)
    return Topic(str(split), counts=True, whole=True, asked=asked)


def earlier(client: Client, topic: Topic) -> frozenset[str] | None:
    """Over whom the client let a sum of this topic be unmasked; None where it has not."""
    found = entries(client).get(topic.name)
    return None if found is None else frozenset(found)


def note(client: Client, topic: Topic, cohort: Sequence[str]) -> None:
    """Keep over whom a sum is about to be unmasked.

    Raises:
        MessageError: when an earlier one was over others.
    """
    refuse_others(client, topic, cohort)
    noted = entries(client)
    if topic.name not in noted:
        state = State({ENTRIES: json_tensor({**noted, topic.name: sorted(hospitals_of(cohort))})})
        client.store.save(client.id, LEDGER, 0, state)


def refuse_others(client: Client, topic: Topic, cohort: Sequence[str], *, may_leave: bool = False) -> None:
    """Refuse a sum over other clients than an earlier one of the same topic.

    Args:
        client: who is asked.
        topic: what is summed.
        cohort: over whom.
        may_leave: whether some of them may still leave before it is unmasked.

    Raises:
        MessageError: naming who is missing, who is new, and what to do.
    """
    before, now = earlier(client, topic), hospitals_of(cohort)
    if before is None or before == now or (may_leave and before < now):
        return
    raise MessageError(f"{client.id} takes no part in a second sum: {difference(topic, before, cohort)}")


def hospitals_of(cohort: Iterable[str]) -> frozenset[str]:
    """A cohort without the coordinator's own client."""
    return frozenset(cohort) - {SERVER}


def difference(topic: Topic, before: frozenset[str], cohort: Iterable[str]) -> str:
    """Why a sum over these may not follow one over those, and what to do."""
    now = hospitals_of(cohort)
    gone, new = sorted(before - now), sorted(now - before)
    changes = [f"without {', '.join(gone)}"] if gone else []
    changes += [f"with {', '.join(new)}"] if new else []
    advice = (
        f"Bring {', '.join(gone)} back and continue with --resume, or begin a new run"
        if gone
        else f"Ask {', '.join(sorted(before))} alone, or begin a new run"
    )
    return (
        f"the sum of `{topic.name}` over {', '.join(sorted(before))} was unmasked in this run, and the same "
        f"{' and '.join(changes)} would tell single hospitals' part by subtraction. {advice}"
    )


def entries(client: Client) -> Mapping[str, list[str]]:
    """All that the client has noted in this run, by topic."""
    state = client.store.load(client.id, LEDGER, 1)
    tensors: Tensors = state.tensors if state is not None else {}
    return read_json(tensors[ENTRIES]) if ENTRIES in tensors else {}

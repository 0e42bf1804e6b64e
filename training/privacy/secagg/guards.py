"""What a client refuses in a secure sum, and why: each guard ends its part in the sum with a reason."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from torch import Tensor

from training.algorithms.client import Client
from training.data.dataset import SERVER
from training.errors import MessageError
from training.messages.message import Broadcast, Tensors
from training.privacy.secagg.cohorts import Topic, refuse_others
from training.privacy.secagg.identity import Identity, Signed, fingerprint
from training.privacy.secagg.kept import (
    CONFIRMED,
    MASKS,
    NAMES,
    OVER,
    PHASE,
    PRESENT,
    SESSION,
    TOPIC,
    kept_in,
)
from training.privacy.secagg.messages import (
    UnmaskQuestion,
    read_json,
    survivors_statement,
    tensor_bytes_of,
)
from training.privacy.settings import SecureAggregationConfig


def load(client: Client, broadcast: Broadcast, of: str, awaited: str) -> dict[str, Tensor]:
    """What was kept for this question.

    Raises:
        MessageError: when another question was awaited, or none.
    """
    kept = kept_in(client, broadcast, of, MASKS)
    found = tensor_bytes_of(kept[PHASE]).decode() if PHASE in kept else OVER
    require(found == awaited, client, f"`{broadcast.ask}` of `{of}` came where {found} was awaited")
    return {name: tensor for name, tensor in kept.items() if name != PHASE}


def place_in(clients: Sequence[str], client: Client) -> int:
    """This client's place.

    Raises:
        MessageError: when it is not among them.
    """
    require(client.id in clients, client, "it is not among the clients of this sum")
    return list(clients).index(client.id)


def require_places(places: Sequence[int], allowed: Iterable[int], me: int, client: Client) -> None:
    """Refuse a list of clients with others than before, one twice, or without this one."""
    told = set(places)
    fits = len(told) == len(places) and told <= set(allowed) and me in told
    require(fits, client, "the list of clients has others than before, one twice, or leaves this one out")


def require_whole(topic: Topic, places: Sequence[int], clients: Sequence[str], client: Client) -> None:
    """Refuse a part of a sum that is of all or of nobody."""
    there = set(places)
    gone = [name for place, name in enumerate(clients) if place not in there]
    require(
        not (topic.whole and gone),
        client,
        f"`{topic.name}` is summed over all that began it or not at all, and {', '.join(gone)} left; bring "
        "them back and continue with --resume",
    )


def require_survivors(
    kept: Tensors, survivors: Sequence[int], client: Client, config: SecureAggregationConfig
) -> None:
    """Refuse a list of survivors that this client has not masked its numbers for, or that tells too much."""
    clients, present = read_json(kept[NAMES]), read_json(kept[PRESENT])
    topic = Topic(**read_json(kept[TOPIC]))
    require_places(survivors, present, place_in(clients, client), client)
    names = [clients[place] for place in survivors]
    require_hospitals(names, client, config.threshold(len(clients)), config)
    require_whole(topic, survivors, clients, client)
    refuse_others(client, topic, names)


def require_signed(
    identity: Identity,
    client: Client,
    clients: Sequence[str],
    signed: Sequence[Signed | None],
    statements: Sequence[Mapping[str, Any]],
) -> None:
    """Refuse keys that are not each hospital's own; the coordinator's own client need not sign."""
    require(len(signed) == len(clients), client, "keys came without signatures")
    fingerprints: dict[str, str] = {}
    for name, each, statement in zip(clients, signed, statements, strict=True):
        if name == SERVER:
            continue
        require(each is not None, client, f"the keys of {name} are not signed")
        fingerprints[name] = fingerprint(identity.check(name, cast(Signed, each), statement))
    times = Counter(fingerprints.values())
    twice = [name for name, found in fingerprints.items() if times[found] > 1]
    require(not twice, client, f"{' and '.join(twice)} sign with the same key")
    identity.known.require(fingerprints)


def require_confirmed(
    identity: Identity,
    client: Client,
    kept: Tensors,
    question: UnmaskQuestion,
    config: SecureAggregationConfig,
) -> None:
    """Refuse to unmask what fewer than t of the survivors have confirmed, or another list than one's own."""
    clients, session = read_json(kept[NAMES]), tensor_bytes_of(kept[SESSION])
    require(
        read_json(kept[CONFIRMED]) == list(question.survivors),
        client,
        "it confirmed another list of survivors",
    )
    statement = survivors_statement(session, question.survivors)
    fingerprints = {
        clients[place]: fingerprint(identity.check(clients[place], signed, statement))
        for place, signed in question.confirmed
        if place in question.survivors
    }
    identity.known.require(fingerprints)
    threshold = config.threshold(len(clients))
    require(
        len(fingerprints) >= threshold,
        client,
        f"{len(fingerprints)} clients have confirmed who is in it; {threshold} are needed",
    )


def require_hospitals(
    clients: Sequence[str], client: Client, threshold: int, config: SecureAggregationConfig
) -> None:
    """Refuse a sum over too few; the coordinator's own client does not hide anybody."""
    hospitals = sum(name != SERVER for name in clients)
    require(
        len(clients) >= threshold and hospitals >= config.fewest,
        client,
        f"{len(clients)} clients are left of this sum ({hospitals} hospitals); at least {threshold} are "
        f"needed, {config.fewest} hospitals among them (privacy.secure_aggregation)",
    )


def require(holds: bool, client: Client, reason: str) -> None:
    """Refuse to go on with a sum.

    Raises:
        MessageError: with the reason.
    """
    if not holds:
        raise MessageError(f"{client.id} takes no further part in the secure sum: {reason}")

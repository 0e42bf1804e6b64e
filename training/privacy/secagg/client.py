"""A client's half of a secure sum: withhold an answer's tensors, and send them masked.

Everything between two requests lies in the client's own store, so that the next may come to another process;
what is secret is overwritten when the sum is over. Masks are used once: a request that comes twice, out of
order, or with other clients than before is refused, and each guard (`require_…`) ends the client's part in
the sum with a reason. Where the client has an identity, so is a sum in which anybody's keys are not signed,
or fewer than t have confirmed who is in it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from torch import Tensor

from training.algorithms.client import Client, State
from training.data.dataset import SERVER
from training.errors import MessageError
from training.messages import Broadcast, Message, Tensors, Update, reply
from training.privacy.secagg.arithmetic import SHARE_BYTES, encode, split
from training.privacy.secagg.keys import (
    Agreement,
    Identity,
    KeyPair,
    Signed,
    derive,
    fingerprint,
    seal,
    unseal,
)
from training.privacy.secagg.messages import (
    CONFIRM,
    EARLIER,
    KEY_SHARES,
    KEYS,
    LAYOUT,
    MASKED,
    SEALED,
    SEALED_BYTES,
    SELF_SHARES,
    SHARE,
    SIGNATURE,
    UNMASK,
    ConfirmRequest,
    MaskedRequest,
    ShareRequest,
    Topic,
    UnmaskRequest,
    bytes_tensor,
    earlier,
    json_tensor,
    keys_statement,
    layout_tensor,
    masks_about,
    note,
    read_json,
    refuse_others,
    rows_tensor,
    session_about,
    survivors_statement,
    tensor_bytes_of,
)
from training.privacy.settings import SecureAggregationConfig
from training.randomness import KEY_BYTES

VALUES, MASKS = "withheld", "masks"  # in the store: what waits, and the secrets of its masks
MASK_KEY, SEAL_KEY, SELF_KEY, SESSION = "mask key", "seal key", "self key", "session"
PUBLIC, NAMES, SHARES, PRESENT = "public", "names", "shares", "present"
SEAL_KEYS = "seal keys"
TOPIC, CONFIRMED = "topic", "confirmed"
PHASE, ROUND = "phase", "round"
OVER = "nothing"  # the phase of a sum that is over


def keep(client: Client, message: Message, of: str, awaited: str, tensors: Tensors) -> None:
    """Keep what is needed for the request that is awaited next."""
    state = State({**tensors, PHASE: bytes_tensor(awaited.encode())}, {ROUND: message.round})
    client.store.save(client.id, store_key(message, of, MASKS), message.round, state)


def kept_in(client: Client, message: Message, of: str, what: str) -> Tensors:
    """What a client kept in this very round; nothing where it kept none."""
    state = client.store.load(client.id, store_key(message, of, what), message.round + 1)
    return state.tensors if state is not None and state.scalars.get(ROUND) == message.round else {}


def store_key(message: Message, of: str, what: str) -> str:
    """Under what a client keeps its half of one sum; not below its training, which may be taken back."""
    return f"masks/{message.stage}/{message.track}/{of}/{what}"


def load(client: Client, broadcast: Broadcast, of: str, awaited: str) -> dict[str, Tensor]:
    """What was kept for this request.

    Raises:
        MessageError: when another request was awaited, or none.
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
    distinct = set(places)
    fits = len(distinct) == len(places) and distinct <= set(allowed) and me in distinct
    require(fits, client, "the list of clients has others than before, one twice, or leaves this one out")


def require_whole(topic: Topic, places: Sequence[int], clients: Sequence[str], client: Client) -> None:
    """Refuse a part of a sum that is of all clients or none."""
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
    request: UnmaskRequest,
    config: SecureAggregationConfig,
) -> None:
    """Refuse to unmask what fewer than t of the survivors have confirmed, or another list than one's own."""
    clients, session = read_json(kept[NAMES]), tensor_bytes_of(kept[SESSION])
    require(
        read_json(kept[CONFIRMED]) == list(request.survivors),
        client,
        "it confirmed another list of survivors",
    )
    statement = survivors_statement(session, request.survivors)
    fingerprints = {
        clients[place]: fingerprint(identity.check(clients[place], signed, statement))
        for place, signed in request.confirmed
        if place in request.survivors
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


ROW = 2 * SHARE_BYTES


def withhold(
    update: Update, client: Client, topic: Topic | None = None, identity: Identity | None = None
) -> Update:
    """The update with two fresh public keys and a list of names and shapes in place of its tensors.

    Args:
        update: what is to be summed.
        client: whose it is.
        topic: of the request; by default that of weights.
        identity: with which the keys are signed.
    """
    topic = topic or Topic(f"{update.stage}/{update.track}/{update.ask}/{update.round}")
    pairs = {MASK_KEY: KeyPair.new(), SEAL_KEY: KeyPair.new()}
    values = State(dict(update.tensors.items()), {ROUND: update.round})
    client.store.save(client.id, store_key(update, update.ask, VALUES), update.round, values)
    kept = {name: bytes_tensor(pair.private) for name, pair in pairs.items()}
    keep(client, update, update.ask, SHARE, {**kept, TOPIC: json_tensor(asdict(topic))})
    public = [pair.public for pair in pairs.values()]
    sent = {KEYS: rows_tensor(public, KEY_BYTES), LAYOUT: layout_tensor(update.tensors)}
    if identity is not None:
        statement = keys_statement(update, update.ask, topic.asked, b"".join(public))
        sent[SIGNATURE] = json_tensor(identity.sign(statement).model_dump())
    before = earlier(client, topic)
    if before is not None:
        sent[EARLIER] = json_tensor(sorted(before))
    return replace(update, tensors=sent)


def answer(
    broadcast: Broadcast, client: Client, config: SecureAggregationConfig, identity: Identity | None = None
) -> Update:
    """A client's answer to one of the requests of a sum.

    Raises:
        MessageError: when it comes out of turn, or what it asks for would reveal more than a sum.
    """
    answers = {SHARE: share, MASKED: masked, CONFIRM: confirm, UNMASK: unmask}
    return answers[broadcast.ask](broadcast, client, config, identity)


def share(
    broadcast: Broadcast, client: Client, config: SecureAggregationConfig, identity: Identity | None
) -> Update:
    """Split the mask key and a fresh self mask b among all, sealed for each."""
    request = ShareRequest.model_validate(broadcast.options)
    kept = load(client, broadcast, request.of, SHARE)
    topic = Topic(**read_json(kept[TOPIC]))
    clients, public = request.clients, tensor_bytes_of(broadcast.tensors[KEYS])
    keys = {name: KeyPair.of(tensor_bytes_of(kept[name])) for name in (MASK_KEY, SEAL_KEY)}
    own = b"".join(pair.public for pair in keys.values())
    me = place_in(clients, client)
    require(
        len(set(clients)) == len(clients) and len(public) == len(clients) * len(own),
        client,
        "the list of keys does not fit the list of clients",
    )
    rows = [public[start : start + len(own)] for start in range(0, len(public), len(own))]
    require(rows[me] == own, client, "its own key was changed on its way")
    require(len(set(rows)) == len(rows), client, "two clients have the same key")
    threshold = config.threshold(len(clients))
    require_hospitals(clients, client, threshold, config)
    refuse_others(client, topic, clients, may_leave=not topic.whole)
    if identity is not None:
        statements = [keys_statement(broadcast, request.of, topic.asked, row) for row in rows]
        require_signed(identity, client, clients, request.signed, statements)
    session = session_about(broadcast, request.of, topic.asked, clients, public)
    self_key = KeyPair.new().private
    pieces = zip(
        split(keys[MASK_KEY].private, len(clients), threshold),
        split(self_key, len(clients), threshold),
        strict=True,
    )
    agreement = Agreement(keys[SEAL_KEY].private)
    sealed, seal_keys, own_shares = [], [], b""
    for place, (of_key, of_self) in enumerate(pieces):
        if place == me:
            own_shares = of_key + of_self
            sealed.append(bytes(SEALED_BYTES))
            seal_keys.append(bytes(KEY_BYTES))
            continue
        seal_keys.append(agreement.with_(rows[place][KEY_BYTES:], session, "seal"))
        sealed.append(seal(seal_keys[-1], of_key + of_self, about(session, me, place)))
    kept |= {
        SELF_KEY: bytes_tensor(self_key),
        SESSION: bytes_tensor(session),
        PUBLIC: bytes_tensor(public),
        NAMES: json_tensor(clients),
        SHARES: bytes_tensor(own_shares),
        SEAL_KEYS: rows_tensor(seal_keys, KEY_BYTES),
    }
    keep(client, broadcast, request.of, MASKED, kept)
    return reply(broadcast, tensors={SEALED: rows_tensor(sealed, SEALED_BYTES)})


def masked(
    broadcast: Broadcast, client: Client, config: SecureAggregationConfig, identity: Identity | None
) -> Update:
    """y: the weighted values, one's own mask and the pairs' masks, modulo 2^32 and 2^64."""
    request = MaskedRequest.model_validate(broadcast.options)
    kept = load(client, broadcast, request.of, MASKED)
    topic = Topic(**read_json(kept[TOPIC]))
    clients, session = read_json(kept[NAMES]), tensor_bytes_of(kept[SESSION])
    me, present = place_in(clients, client), request.present
    require_places(present, range(len(clients)), me, client)
    require_hospitals([clients[place] for place in present], client, config.threshold(len(clients)), config)
    require_whole(topic, present, clients, client)
    require(request.weight == 1 or not topic.counts, client, "counts are added up, each with weight 1")
    public = tensor_bytes_of(kept[PUBLIC])
    mine = Agreement(tensor_bytes_of(kept[MASK_KEY]))
    withheld = kept_in(client, broadcast, request.of, VALUES)
    vector = encode(withheld, request.layout, request.weight, request.total_weight)
    vector.add(vector.mask(derive(tensor_bytes_of(kept[SELF_KEY]), session, "self mask")))
    pairs_are_for = masks_about(session, request)
    for place in sorted(set(present) - {me}):
        mask_key = public[2 * place * KEY_BYTES :][:KEY_BYTES]
        pair = vector.mask(mine.with_(mask_key, pairs_are_for, "pair mask"))
        vector.add(pair) if me < place else vector.subtract(pair)
    seal_keys = kept[SEAL_KEYS].numpy()
    held = []
    for place, sealed in zip(present, broadcast.tensors[SEALED].numpy(), strict=True):
        if place == me:
            held.append(tensor_bytes_of(kept[SHARES]))
            continue
        held.append(unseal(seal_keys[place].tobytes(), sealed.tobytes(), about(session, place, me)))
    kept_on = {
        TOPIC: kept[TOPIC],
        SESSION: kept[SESSION],
        NAMES: kept[NAMES],
        SHARES: rows_tensor(held, ROW),
        PRESENT: json_tensor(present),
    }
    keep(client, broadcast, request.of, UNMASK if identity is None else CONFIRM, kept_on)
    client.store.save(client.id, store_key(broadcast, request.of, VALUES), broadcast.round, State())
    return reply(broadcast, tensors=vector.to_tensors())


def confirm(
    broadcast: Broadcast, client: Client, config: SecureAggregationConfig, identity: Identity | None
) -> Update:
    """A signature on the list of survivors; of one list, whatever else is asked."""
    request = ConfirmRequest.model_validate(broadcast.options)
    kept = load(client, broadcast, request.of, CONFIRM)
    assert identity is not None, "only a client with an identity waits for this request"
    require_survivors(kept, request.survivors, client, config)
    statement = survivors_statement(tensor_bytes_of(kept[SESSION]), request.survivors)
    keep(client, broadcast, request.of, UNMASK, {**kept, CONFIRMED: json_tensor(request.survivors)})
    return reply(broadcast, tensors={SIGNATURE: json_tensor(identity.sign(statement).model_dump())})


def unmask(
    broadcast: Broadcast, client: Client, config: SecureAggregationConfig, identity: Identity | None
) -> Update:
    """Shares of the self masks of those that are there, and of the mask keys of those that are gone."""
    request = UnmaskRequest.model_validate(broadcast.options)
    kept = load(client, broadcast, request.of, UNMASK)
    topic, survivors = Topic(**read_json(kept[TOPIC])), request.survivors
    clients, present = read_json(kept[NAMES]), read_json(kept[PRESENT])
    require_survivors(kept, survivors, client, config)
    if identity is not None:
        require_confirmed(identity, client, kept, request, config)
    shares = {place: row.tobytes() for place, row in zip(present, kept[SHARES].numpy(), strict=True)}
    size, there = SHARE_BYTES, set(survivors)
    gone = [place for place in present if place not in there]
    note(client, topic, [clients[place] for place in survivors])
    keep(client, broadcast, request.of, OVER, {})  # before the answer: there is no second one
    return reply(
        broadcast,
        tensors={
            SELF_SHARES: rows_tensor([shares[p][size:] for p in survivors], size),
            KEY_SHARES: rows_tensor([shares[p][:size] for p in gone], size),
        },
    )


def about(session: bytes, sender: int, recipient: int) -> bytes:
    """What a sealed message is bound to: session, sender, recipient."""
    return session + sender.to_bytes(4, "big") + recipient.to_bytes(4, "big")

"""What a client keeps of a secure sum between two questions, in its own store."""

from training.algorithms.client import Client, State
from training.messages.message import Message, Tensors
from training.updates.secure_aggregation.messages import bytes_tensor

VALUES, MASKS = "withheld", "masks"  # in the store: what waits, and the secrets of its masks
MASK_KEY, SEAL_KEY, SELF_KEY, SESSION = "mask key", "seal key", "self key", "session"
PUBLIC, NAMES, SHARES, PRESENT = "public", "names", "shares", "present"
SEAL_KEYS = "seal keys"
TOPIC, CONFIRMED = "topic", "confirmed"
PHASE, ROUND = "phase", "round"
OVER = "nothing"  # the phase of a sum that is over


def keep(client: Client, message: Message, of: str, awaited: str, tensors: Tensors) -> None:
    """Keep what is needed for the question that is awaited next."""
    state = State({**tensors, PHASE: bytes_tensor(awaited.encode())}, {ROUND: message.round})
    client.store.save(client.id, store_key(message, of, MASKS), message.round, state)


def kept_in(client: Client, message: Message, of: str, what: str) -> Tensors:
    """What a client kept in this very round; nothing where it kept none."""
    state = client.store.load(client.id, store_key(message, of, what), message.round + 1)
    return state.tensors if state is not None and state.scalars.get(ROUND) == message.round else {}


def store_key(message: Message, of: str, what: str) -> str:
    """Under what a client keeps its half of one sum; not below its training, which may be taken back."""
    return f"masks/{message.stage}/{message.track}/{of}/{what}"

"""What names a question: a digest by which the same one is known again, and another is told from it."""

import hashlib
import json

from training.messages.message import Broadcast
from training.messages.tensor_digest import value_bytes


def question_digest(question: Broadcast) -> str:
    """The SHA-256 of all of a question but whom it is for: two are the same if their every byte is."""
    about = [question.stage, question.round, question.ask, question.track, dict(question.options)]
    found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, tensor in sorted(question.tensors.items()):
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode()
        found.update(len(head).to_bytes(8, "big") + head)
        found.update(value_bytes(tensor))
    return found.hexdigest()

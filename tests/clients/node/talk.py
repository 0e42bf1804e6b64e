"""What a coordinator says to the door of a hospital's node, for tests."""

import json

from clients.node.door import Door
from training.engines.nvflare.handshake import shake_hands
from training.engines.nvflare.payload import write_payload
from training.engines.nvflare.roster import ClientProperties, agree
from training.engines.nvflare.wire import Stamp, stamp_of, write_question
from training.jobs.job import Job
from training.messages.message import Broadcast
from training.models import initial_model
from training.models.classifier import float_state

SESSION = "s1"


def greet(door: Door, job: Job) -> str:
    """The handshake, or a refusal."""
    return door.greet(shake_hands(job.digest, SESSION).model_dump_json())


def join(door: Door, job: Job) -> None:
    """Greet, hear the properties, and send the roster."""
    assert "refused" not in greet(door, job)
    told = ClientProperties.model_validate_json(door.introduce())
    assert json.loads(door.join(agree(job, [told], {}).model_dump_json())) == {}


def question(
    job: Job, ask: str, number: int, stage: str = "0-federate", track: str = "global", **options: object
) -> tuple[str, bytes, Stamp]:
    """A question's header and payload, and its stamp."""
    weights = float_state(initial_model(job.model, job.seed, job.data.image_size, 2))
    asked = Broadcast("north", stage, 1, ask, track, weights, options)
    stamp = stamp_of(asked, job.digest, SESSION, number)
    return write_question(asked, stamp, 0), write_payload(weights), stamp


def ask(door: Door, job: Job, what: str, number: int, **options: object) -> list[str | bytes | int] | str:
    """The answer to a question, or a refusal."""
    header, body, _ = question(job, what, number, **options)  # type: ignore[arg-type]
    return door.answer(header, body, len(body))

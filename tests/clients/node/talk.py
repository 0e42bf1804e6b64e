"""What a coordinator says to the gateway of a hospital's node, for tests."""

import json

from clients.node.outbound_gateway import OutboundGateway
from training.engines.roster import ClientProperties, agree, shake_hands
from training.engines.wire import Stamp, stamp_of, write_payload, write_request
from training.jobs.job import Job
from training.messages import Broadcast
from training.models import initial_model
from training.models.classifier import float_state

SESSION = "s1"


def handshake(gateway: OutboundGateway, job: Job) -> str:
    """The handshake, or a refusal."""
    return gateway.handshake(shake_hands(job.digest, SESSION).model_dump_json())


def join(gateway: OutboundGateway, job: Job) -> None:
    """Greet, hear the properties, and send the roster."""
    assert "refused" not in handshake(gateway, job)
    told = ClientProperties.model_validate_json(gateway.register())
    assert json.loads(gateway.join(agree(job, [told], {}).model_dump_json())) == {}


def request(
    job: Job, ask: str, number: int, stage: str = "0-federate", track: str = "global", **options: object
) -> tuple[str, bytes, Stamp]:
    """A request's header and payload, and its stamp."""
    weights = float_state(initial_model(job.model, job.seed, job.data.image_size, 2))
    asked = Broadcast("north", stage, 1, ask, track, weights, options)
    stamp = stamp_of(asked, job.digest, SESSION, number)
    return write_request(asked, stamp, 0), write_payload(weights), stamp


def ask(
    gateway: OutboundGateway, job: Job, what: str, number: int, **options: object
) -> list[str | bytes | int] | str:
    """The answer to a request, or a refusal."""
    header, body, _ = request(job, what, number, **options)  # type: ignore[arg-type]
    return gateway.answer(header, body, len(body))

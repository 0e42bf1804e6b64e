"""A picture in the queue of the scheduler, and how its answer gets to whoever waits for it."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from registry.bundle.model_file.graph import Outputs
from serving.inference.predictor import Decoded, LoadedVersion

log = logging.getLogger("dermfed.serve")

Answer = tuple[Decoded, Outputs]
Answers = Sequence[tuple["asyncio.Future[Answer]", Answer | Exception]]


@dataclass(eq=False)
class QueuedPicture:
    """A picture in the queue of the batcher.

    Attributes:
        loaded: the version that it is for.
        decode: decodes it for the version's model.
        decode_costly: decodes it where `decode` says that it costs more than its share; None where nothing
            does.
        answer: the future of the decoded picture and the model's outputs.
        waiting_since: when it began to wait, to be decoded or to be run; on the monotonic clock.
        waited: seconds that it waited to be decoded.
        decoded: what the one that decoded it returned; None before.
        put_by: whether it was left to the line for costly ones.
    """

    loaded: LoadedVersion
    decode: Callable[[], Decoded]
    decode_costly: Callable[[], Decoded] | None
    answer: "asyncio.Future[Answer]"
    waiting_since: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    decoded: Decoded | None = None
    put_by: bool = False


def deliver(answers: Answers) -> None:
    """Resolves the futures of answers in their event loop, from another thread."""
    try:
        answers[0][0].get_loop().call_soon_threadsafe(_resolve, answers)
    except RuntimeError:  # the loop has ended, and with it whoever waited
        log.warning("%d answers came after the service had ended", len(answers))


def _resolve(answers: Answers) -> None:
    for future, answer in answers:
        if future.done():
            continue  # nobody waits for it any more
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

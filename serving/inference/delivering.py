"""Handing answers from the threads that work to the event loop that waits for them."""

import asyncio
import logging
from collections.abc import Sequence

from registry.bundle.model_file.graph import Outputs
from serving.inference.predictor import Decoded

log = logging.getLogger("dermfed.serve")

Answer = tuple[Decoded, Outputs]
Answers = Sequence[tuple["asyncio.Future[Answer]", Answer | Exception]]


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

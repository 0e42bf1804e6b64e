"""A sign of life, and what it tells: whether the site works on something that it was asked."""

from training.config import FrozenConfig

SLOWEST = 250_000  # bytes a second (2 Mbit/s) that a site's line is trusted to carry


class Pulse(FrozenConfig):
    """What a site says when it is asked for a sign of life.

    Attributes:
        busy: whether a question is there that it has not answered yet.
        answer: bytes of its newest answer that came with the call, and may still be on their way.
    """

    busy: bool
    answer: int = 0


def time_on_the_way(silence: float, bytes_: int) -> float:
    """Seconds after which a message that did not arrive is taken for lost.

    silence + bytes / SLOWEST: a connection that is reset takes along what it carried, and says so to nobody.

    Args:
        silence: the job's `engine.network.silence`.
        bytes_: of question and answer.
    """
    return silence + bytes_ / SLOWEST

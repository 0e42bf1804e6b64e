"""How many answers a round over a network waits for."""

from training.canary import CANARY
from training.federation import EVALUATE, FIT
from training.job import Job
from training.messages import Broadcast
from training.privacy.questions import QUESTIONS


def needed(job: Job, question: Broadcast, asked: int) -> int:
    """How many of `asked` answers to such a question there must be before a round goes on.

    A round of training, and the canary before it, needs `engine.min_clients`; counts after a round need
    nobody; whatever else is asked, the last test among it, needs everybody. Under masks a sum needs what its
    threshold says, too: with fewer nothing is unmasked, and the round would be refused where it can wait. The
    three questions of a sum need what the question needs whose answers are summed.
    """
    masked = question.ask in QUESTIONS
    ask = str(question.options.get("of")) if masked else question.ask
    if ask == CANARY:
        return min(asked, required(job, question.stage, asked))
    if ask not in (FIT, EVALUATE):
        return asked
    least = int(question.options.get("threshold", 0)) if masked else least_hidden(job, ask)
    return min(asked, max(least, required(job, question.stage, asked) if ask == FIT else 0))


def required(job: Job, stage: str, asked: int) -> int:
    """What a round of training needs, masks or not."""
    minimum = job.engine.min_clients
    return asked if minimum is None or job.stage(stage).needs_everyone else minimum


def least_hidden(job: Job, ask: str) -> int:
    """The fewest clients whose sum may be shown; 0 where each is seen by itself."""
    masks = job.privacy.secure_aggregation if ask == FIT else job.privacy.masked_counts
    if masks is None:
        return 0
    server = job.data.server
    own = ask == FIT and server is not None and server.train > 0  # its own pictures hide nobody's
    return masks.fewest + own

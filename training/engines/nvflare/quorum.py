"""The quorum of a round over a network: how many answers it waits for."""

from training.jobs.job import Job
from training.messages.message import Broadcast
from training.privacy.secagg.messages import QUESTIONS
from training.rounds.canary import CANARY
from training.rounds.requests import EVALUATE, FIT
from training.rounds.server.ask import quorum_of


def needed(job: Job, question: Broadcast, asked: int) -> int:
    """How many of `asked` answers to such a question there must be before a round goes on.

    A round of training, and the canary before it, needs `engine.min_clients`; counts after a round need
    nobody; the last test and calibration need the share `evaluation.quorum` of those asked, and whatever else
    is asked needs everybody. Under masks a sum needs what its threshold says, too: with fewer nothing is
    unmasked, and the round would be refused where it can wait. The three questions of a sum need what the
    question needs whose answers are summed.
    """
    masked = question.ask in QUESTIONS
    ask = str(question.options.get("of")) if masked else question.ask
    if ask == CANARY:
        return min(asked, required(job, question.stage, asked))
    whole = job.evaluation.quorum == 1 or not quorate(job, question.stage, ask)
    if ask not in (FIT, EVALUATE) and whole:
        return asked
    least = int(question.options.get("threshold", 0)) if masked else smallest_sum(job, ask)
    return min(asked, max(least, enough_of(job, question.stage, ask, asked)))


def enough_of(job: Job, stage: str, ask: str, asked: int) -> int:
    """How many answers a question needs of which some may be missing, masks aside."""
    if ask == EVALUATE:
        return 0
    return required(job, stage, asked) if ask == FIT else quorum_of(job.evaluation.quorum, asked)


def quorate(job: Job, stage: str, ask: str) -> bool:
    """Whether a stage goes on with some of the answers to a question outside its rounds."""
    keys = map(job.key, range(len(job.stages)))
    return stage in keys and ask in job.stage(stage).quorate


def required(job: Job, stage: str, asked: int) -> int:
    """How many answers a round of training needs, masks aside."""
    minimum = job.engine.min_clients
    return asked if minimum is None or job.stage(stage).needs_everyone else minimum


def smallest_sum(job: Job, ask: str) -> int:
    """The fewest clients that a sum under masks may be of; 0 where answers are not summed under masks."""
    masks = job.privacy.secure_aggregation if ask == FIT else job.privacy.masked_counts
    if masks is None:
        return 0
    server = job.data.server
    own = ask == FIT and server is not None and server.train > 0  # its own pictures hide nobody's
    return masks.fewest + own

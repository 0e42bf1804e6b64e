"""What stands before a node's answers: its policy, the count of canaries, one request at a time."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import torch

from clients.federation.errors import ClosedHoursError, LimitsError, PolicyError
from clients.node.journal import private
from clients.node.policy import Policy, PrivacyPolicy, hours_in_words, read_policy
from training.algorithms.objectives.dp_sgd import DPSGD
from training.data.settings import identifying, refuse_identifying, selecting_columns
from training.errors import MessageError, public
from training.files import locked_within, write_text
from training.jobs.job import Job
from training.jobs.recipes import recipe_path
from training.messages import Answer, Broadcast, Failure
from training.rounds.requests import CANARY, STEPS

SAME = ("model", "stages", "compression", "evaluation")  # the blocks that make a job the one of a recipe


@dataclass(frozen=True)
class Verdict:
    """What one rule says of a job.

    Attributes:
        rule: the key in `policy.yaml`.
        allowed: whether the job keeps to it.
        text: what is asked, and what the job has.
    """

    rule: str
    allowed: bool
    text: str


def verdicts_on(policy: Policy, job: Job, unmasked: str | None = None) -> Iterator[Verdict]:
    """What each rule of the policy says of a job; nothing of rules that are not set.

    Args:
        policy: the hospital's.
        job: the job, with masks on counts decided.
        unmasked: why counts leave in the clear, where that is known.
    """
    yield from on_privacy(policy.privacy, job, unmasked)
    named = policy.jobs
    if named.digests or named.recipes:
        recipe = recipe_of(job, named.recipes)
        allowed = job.digest in named.digests or recipe is not None
        what = f"the recipe {recipe}" if recipe else job.digest
        wanted = [f"{len(named.digests)} digests"] if named.digests else []
        wanted += [f"the recipes {', '.join(named.recipes)}"] if named.recipes else []
        yield Verdict("jobs", allowed, f"{' and '.join(wanted)} are allowed, the job is {what}")


def on_privacy(least: PrivacyPolicy, job: Job, unmasked: str | None) -> Iterator[Verdict]:
    """What the rules on privacy say of a job."""
    privacy = job.privacy
    masks, secure = privacy.masked_counts, privacy.secure_aggregation
    yield Verdict(
        "privacy.min_count",
        privacy.min_count >= least.min_count,
        f"{least.min_count} or more is asked, the job has {privacy.min_count}",
    )
    columns = selecting_columns(job.data, job.evaluation.intersections)
    for column, settings in columns.items():
        why = "may select by it" if column in least.columns else "is not among privacy.columns"
        if identifying(column):
            why = "names single pictures, lesions or patients, by which no job selects"
        yield Verdict(
            "privacy.columns",
            column in least.columns,
            f"{', '.join(settings)} {'selects' if len(settings) == 1 else 'select'} by the column {column}, "
            f"which {why}",
        )
    if least.masked_counts:
        yield Verdict("privacy.masked_counts", masks is not None, masked_in_words(job, unmasked))
    if least.masked_weights:
        yield Verdict(
            "privacy.masked_weights",
            secure is not None,
            f"weights leave {'under masks' if secure else 'in the clear: no privacy.secure_aggregation'}",
        )
    sums = {each.fewest for each in (masks, secure) if each is not None}
    if sums:
        yield Verdict(
            "privacy.fewest",
            min(sums) >= least.fewest,
            f"sums over {least.fewest} hospitals or more are asked, the job's are over {min(sums)} or more",
        )
    if least.least_noise is not None:
        noise = noise_of(job)
        yield Verdict(
            "privacy.least_noise",
            noise >= least.least_noise,
            f"a noise multiplier of {least.least_noise:g} or more is asked, the job has {noise:g}",
        )
    if least.largest_epsilon is not None:
        epsilon = privacy.counts.epsilon
        yield Verdict(
            "privacy.largest_epsilon",
            epsilon is not None and epsilon <= least.largest_epsilon,
            f"counts with ε of {least.largest_epsilon:g} or less are asked, the job has "
            f"{'no noise on them' if epsilon is None else format(epsilon, 'g')}",
        )


def masked_in_words(job: Job, unmasked: str | None) -> str:
    """Whether counts leave under masks, and what hospitals have to do that allow it otherwise."""
    if job.privacy.masked_counts is not None:
        return "counts leave under masks"
    why = "" if unmasked is None else f": {unmasked}"
    return (
        f"counts leave in the clear{why}. A hospital that allows it writes privacy.masked_counts: false into "
        "its policy.yaml; where two take part, both have to"
    )


def noise_of(job: Job) -> float:
    """The least noise multiplier of whatever a job trains and sends; 0 where some of it gets none."""
    level = job.privacy.client_level
    if level is not None:
        return level.noise_multiplier
    trained = [stage for stage in job.stages if hasattr(stage, "objective")]
    others = any(hasattr(stage, "strategy") for stage in job.stages)  # trains by another rule, without noise
    private = [each.objective.noise_multiplier for each in trained if isinstance(each.objective, DPSGD)]
    return min(private) if private and len(private) == len(trained) and not others else 0.0


def recipe_of(job: Job, names: tuple[str, ...]) -> str | None:
    """Which of these built-in jobs a job is, by what is installed here; None for none of them."""
    from training.jobs.job import read_job

    for name in names:
        recipe = read_job(recipe_path(name))
        if all(getattr(recipe, block) == getattr(job, block) for block in SAME):
            return name
    return None


GB = 1_000_000_000  # bytes


def now_here() -> datetime:
    """The time by this machine's clock."""
    return datetime.now().astimezone()


@dataclass
class PolicyGuard:
    """Checks jobs and requests against a hospital's policy.

    Attributes:
        path: of `policy.yaml`; read again each time.
        kept: the folders that jobs fill.
        clock: the time.
    """

    path: Path
    kept: Sequence[Path] = ()
    clock: Callable[[], datetime] = now_here
    _judged: tuple[Policy, str] | None = field(default=None, init=False)

    def policy(self) -> Policy:
        """The policy as it is now.

        Raises:
            PolicyFileError: it cannot be read, and nothing is allowed.
        """
        return read_policy(self.path)

    def admit(self, job: Job) -> Policy:
        """The policy, where it allows a job, now.

        Args:
            job: the job, with masks on counts decided.

        Raises:
            JobError: it selects by a column that names patients, which no policy allows.
            PolicyError: it does not; with every rule that the job breaks.
            ClosedHoursError: not at this hour.
            LimitsError: the disk is fuller than it allows.
            PolicyFileError: it cannot be read.
        """
        policy = self.policy()
        refuse_identifying(job.data, job.evaluation.intersections)
        stamp = job.model_dump_json()
        if self._judged != (policy, stamp):
            broken = [each for each in verdicts_on(policy, job) if not each.allowed]
            if broken:
                told = "; ".join(f"{each.rule}: {each.text}" for each in broken)
                raise PolicyError(f"job {job.name} does not keep to {self.path}: {told}")
            self._judged = (policy, stamp)
        self._look(policy)
        return policy

    def look(self) -> Policy:
        """Whether anything at all may be asked now; the job is not looked at."""
        policy = self.policy()
        self._look(policy)
        return policy

    @property
    def census_apart(self) -> bool:
        """Whether numbers of pictures are held against those of earlier runs."""
        return self.policy().privacy.census_apart

    def limited(self, job: Job) -> Job:
        """The job within what it may take of this machine, whose GPU's memory is divided here."""
        limits = self.policy().limits
        if limits.gpu and limits.gpu_memory is not None and torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(limits.gpu_memory)
        return within_limits(self.policy(), job)

    def _look(self, policy: Policy) -> None:
        now = self.clock()
        if not policy.open_at(now):
            raise ClosedHoursError(
                f"it is {now:%a %H:%M}, and {self.path} allows work {hours_in_words(policy.hours)}"
            )
        limits = policy.limits
        if limits.free_gb is not None:
            free = shutil.disk_usage(self.path.parent).free
            if free < limits.free_gb * GB:
                raise LimitsError(
                    f"{free / GB:.1f} GB are free at {self.path.parent}, limits.free_gb is {limits.free_gb:g}"
                )
        if limits.disk_gb is not None:
            used = sum(bytes_in(folder) for folder in self.kept)
            if used > limits.disk_gb * GB:
                raise LimitsError(
                    f"{used / GB:.2f} GB are in {', '.join(map(str, self.kept))}, limits.disk_gb is "
                    f"{limits.disk_gb:g}; ended runs in private/runs may be removed"
                )


def bytes_in(folder: Path) -> int:
    """The bytes of all files below a folder; files that go meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total


def within_limits(policy: Policy, job: Job) -> Job:
    """The job with no more threads and no other device than the policy allows."""
    limits, engine = policy.limits, job.engine
    if limits.threads is not None and engine.threads_per_client > limits.threads:
        engine = engine.model_copy(update={"threads_per_client": limits.threads})
    if not limits.gpu and engine.device != "cpu":
        engine = engine.model_copy(update={"device": "cpu"})
    return job if engine is job.engine else job.model_copy(update={"engine": engine})


DEATHS = 2  # a process may be ended once for reasons of its own


class CanaryGuard:
    """Counts the canaries that began and never ended, across processes.

    Args:
        path: where; there is no such file but while one is under way, or after a process was ended by it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self, request: Broadcast, answer: Callable[[Broadcast], Answer]) -> Answer:
        """The answer to a request; to a canary that killed the process twice, a `Failure` instead."""
        if request.ask != CANARY:
            return answer(request)
        deaths = self._deaths()
        if deaths >= DEATHS:
            self._path.unlink()
            return Failure(
                request.client,
                request.track,
                f"{request.client} cannot train: its process was ended {deaths} times while it trained "
                f"{STEPS} batches, most often for lack of memory",
            )
        write_text(self._path, f"{deaths + 1}\n")
        answered = answer(request)
        self._path.unlink()
        return answered

    def _deaths(self) -> int:
        try:
            return int(self._path.read_text())
        except (OSError, ValueError):
            return 0


FILE = "one-request.lock"  # in a kit's `private`
PATIENCE = 300.0  # seconds that a process which is about to end may take


@contextmanager
def one_question(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Hold a node's lock for as long as a request is answered; one that was killed holds it no more.

    A coordinator that lies may have a node run two jobs at once. What a node keeps so that two answers do
    not disclose more than one is looked up before an answer and written down with it: the account of
    differences, over whom sums were, whose keys are known, how often noise was drawn. Two processes that
    looked up at the same time would both find nothing.

    Args:
        path: of the lock.
        patience: seconds to wait for another process.

    Raises:
        MessageError: another process is at work for longer.
        OSError: the lock cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", opener=private) as lock:
        if not locked_within(lock, patience):
            raise public(
                MessageError(
                    f"another process of this node has been at work for {patience:g} seconds "
                    "on a request of another job; stop that job, or ask again when it has answered"
                )
            )
        yield

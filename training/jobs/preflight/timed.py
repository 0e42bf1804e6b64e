"""A step of each stage, timed on a few pictures of one client; nothing of it is kept."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from training.algorithms.client_state import StateStore
from training.algorithms.local_model import LocalModel
from training.data.dataset import SPLITS, Dataset, Examples
from training.federation.canary import CANARY, STEPS
from training.federation.canary import LOGGER as CANARY_LOG
from training.federation.client.evaluate import predict
from training.federation.server.plan import TrackState
from training.federation.server.round_loop import first_questions
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.jobs.preflight.few_pictures import FewPictures
from training.jobs.preflight.rehearsal import Rehearsal
from training.jobs.stages.base import Rehearsed, StageContext
from training.jobs.stages.on_features import embedding_questions
from training.messages.message import Broadcast, Failure
from training.models.groups import float_state
from training.updates.settings import CountsConfig, PrivacyConfig

LOGGER = logging.getLogger("dermfed.preflight")
FEW, MORE = 4, 16  # pictures of a try; more are tried where few are quick
TRIES = 3  # of which the quickest counts
PATIENCE = 1.0  # seconds that few may take for more to be tried


@dataclass(frozen=True)
class TimedStep:
    """What a few pictures took.

    Attributes:
        fit: seconds of training a picture once, as `now` counts them.
        look: seconds of an answer for a picture.
        features: seconds of making a picture's features, its views among them; 0 where none are made.
        saved: bytes that a picture's activations take while it is trained on.
        overhead: seconds that an answer to a question takes whatever its pictures.
    """

    fit: float
    look: float
    features: float = 0.0
    saved: float = 0.0
    overhead: float = 0.0


@dataclass
class Activations:
    """Bytes of what steps keep for their gradients.

    Attributes:
        held: the memory that is counted already, so that what two operations keep counts once.
        all: bytes.
    """

    held: dict[int, Tensor] = field(default_factory=dict)
    all: int = 0

    def keep(self, tensor: Tensor) -> Tensor:
        """Count a tensor; it is held, so that its place in memory is no other's."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.held:
            self.held[storage.data_ptr()] = tensor
            self.all += storage.nbytes()
        return tensor


def time_steps(job: Job, dataset: Dataset, rehearsal: Rehearsal, store: StateStore) -> list[TimedStep | None]:
    """Time a step of every stage that trains.

    Args:
        job: the job.
        dataset: all of its pictures.
        rehearsal: its stages as they will be.
        store: for what clients keep; emptied by whoever made it.

    Returns:
        Of each stage; None of one that trains nothing, or whose first step needs answers of others.
    """
    with threads(job.engine.threads_per_client), quiet():
        return [
            None
            if planned is None or not planned.epochs
            else time_stage(job, dataset, context, planned, store)
            for context, planned in zip(rehearsal.contexts, rehearsal.planned, strict=True)
        ]


@contextmanager
def quiet() -> Iterator[None]:
    """Let a step that fails on so few pictures fail without a traceback on the terminal, while it lasts."""
    CANARY_LOG.addFilter(nothing)
    try:
        yield
    finally:
        CANARY_LOG.removeFilter(nothing)


def nothing(record: logging.LogRecord) -> bool:
    """Let no record pass."""
    return False


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Compute with so many threads while it lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def time_stage(
    job: Job, dataset: Dataset, context: StageContext, planned: Rehearsed, store: StateStore
) -> TimedStep | None:
    """Time a step of one stage at the client with the most pictures; None where it cannot be tried alone."""
    few = FewPictures(dataset, FEW)
    try:
        trial = Trial(context, planned, few, ClientApp(open_job(job), few, store))
        if trial.ask() is None:  # warms up
            return None
        first = trial.quickest()
        if first is None or first.seconds > PATIENCE:
            return None if first is None else first.alone()
        few.most = MORE
        second = trial.quickest()
    except (RuntimeError, ValueError, LookupError, AssertionError, TypeError) as error:
        LOGGER.debug("%s is not timed", context.key, exc_info=error)
        return None
    return first.alone() if second is None else first.beside(second)


def open_job(job: Job) -> Job:
    """The job for one who looks at a few pictures where they are: nothing is held back, nothing noised."""
    return job.model_copy(update={"privacy": PrivacyConfig(min_count=1, counts=CountsConfig(masks=False))})


@dataclass(frozen=True)
class Tried:
    """What one try took.

    Attributes:
        trained, made, looked: how many pictures were trained on, turned into features, and answered for.
        fit, features, look: seconds of that.
        saved: bytes of activations.
    """

    trained: int
    made: int
    looked: int
    fit: float
    features: float
    look: float
    saved: int

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.fit + self.features + self.look

    def alone(self) -> TimedStep:
        """The step by this try: all of its time is its pictures'."""
        return TimedStep(
            fit=self.fit / self.trained,
            look=self.look / self.looked,
            features=self.features / self.made,
            saved=self.saved / self.trained,
        )

    def beside(self, larger: "Tried") -> TimedStep:
        """The step by this try and a larger one: what both take whatever the pictures is an answer's own."""
        if larger.trained <= self.trained or larger.fit <= self.fit:
            return larger.alone()
        fit = (larger.fit - self.fit) / (larger.trained - self.trained)
        overhead = max(larger.fit - fit * larger.trained, 0.0)
        return replace(larger.alone(), fit=fit, overhead=overhead)


@dataclass(frozen=True)
class Trial:
    """A client that is asked again and again for a step.

    Attributes:
        context: of the stage.
        planned: what it will do.
        few: the pictures.
        app: plays the client.
    """

    context: StageContext
    planned: Rehearsed
    few: FewPictures
    app: ClientApp

    def quickest(self) -> Tried | None:
        """The quickest of some tries: others waited for whatever else the machine does."""
        tries = [self.ask()]
        while len(tries) < TRIES and tries[-1] is not None and tries[-1].seconds < PATIENCE:
            tries.append(self.ask())
        return min((each for each in tries if each is not None), key=lambda each: each.seconds, default=None)

    def ask(self) -> Tried | None:
        """What the present number of pictures takes, others each time; None where the client refuses."""
        self.few.start += self.few.most
        plan, begun = self.planned.plan, self.planned.plan.aggregator.initial_state()
        states = {track.name: TrackState(self.planned.weights, begun) for track in plan.tracks}
        held = self.few.whole.examples
        questions = first_questions(plan, states)
        fit = max(questions, key=lambda question: len(held(question.client, "train")))
        counts = {split: len(self.few.examples(fit.client, split)) for split in SPLITS}
        features: float | None = 0.0
        if self.planned.on_features:
            (embed,) = embedding_questions(self.context, float_state(self.context.model), [fit.client])
            features = seconds_of(self.app, embed)
        kept = Activations()
        with saved_tensors_hooks(kept.keep, lambda tensor: tensor):
            seconds = seconds_of(self.app, replace(fit, ask=CANARY))
        if features is None or seconds is None:
            return None
        examples = self.few.examples(fit.client, "train")
        look = 0.0 if self.planned.on_features else look_seconds(self.context, examples)
        return Tried(
            trained=min(counts["train"], STEPS * self.planned.batch_size),
            made=sum(counts.values()),
            looked=counts["train"],
            fit=seconds,
            features=features,
            look=look,
            saved=kept.all,
        )


def now() -> float:
    """Seconds that count: of the processor per thread, whatever else it does; of the clock beside a GPU."""
    return perf_counter() if torch.cuda.is_available() else process_time() / torch.get_num_threads()


def seconds_of(app: ClientApp, question: Broadcast) -> float | None:
    """How long the answer to a question takes; None where there is none."""
    started = now()
    answer = app.answer(question)
    if isinstance(answer, Failure):
        LOGGER.debug("%s is not timed: %s", question.stage, answer.reason)
        return None
    return now() - started


def look_seconds(context: StageContext, examples: Examples) -> float:
    """Seconds of an answer for some pictures."""
    engine = context.job.engine
    local_model = LocalModel(deepcopy(context.model), engine.device, engine.precision)
    started = now()
    predict(local_model, examples)
    return now() - started

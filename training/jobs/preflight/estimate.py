"""What a run will take: time, memory and traffic of each stage, from a timed step and the plan of its rounds.

Time is that of this machine where it does nothing else: a step is timed on a few pictures, and the run is
taken to be nothing but such steps and answers. Export, calibration and the writing of files are not in it.
"""

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from training.data.dataset import SPLITS, Dataset, Split
from training.federation.server.plan import Plan, Track
from training.jobs.job import Job
from training.jobs.preflight.rehearsal import Rehearsal
from training.jobs.preflight.timed import TimedStep
from training.jobs.stages.base import Rehearsed
from training.messages.message import tensor_bytes

COPIES = (
    4  # of the weights while they are trained: themselves, their gradients and an optimizer's two moments
)


@dataclass(frozen=True)
class StageEstimate:
    """What a stage will take.

    Attributes:
        stage: its name.
        rounds: how many; 0 of a stage that trains nothing.
        seconds: of all rounds together; None where no step could be timed.
        down: bytes that go to one client in a round, of one model.
        up: bytes that come back.
        traffic: bytes of all clients and rounds.
        memory: bytes that a training client needs beside the pictures; None where no step could be timed.
    """

    stage: str
    rounds: int = 0
    seconds: float | None = None
    down: int = 0
    up: int = 0
    traffic: int = 0
    memory: float | None = None

    def record(self) -> dict[str, Any]:
        """The estimate as JSON has it."""
        return asdict(self)


def estimate(
    job: Job, dataset: Dataset, rehearsal: Rehearsal, timed: list[TimedStep | None]
) -> list[StageEstimate]:
    """What each stage of a job will take.

    Args:
        job: the job.
        dataset: all of its pictures.
        rehearsal: its stages as they will be.
        timed: a step of each.
    """
    return [
        StageEstimate(stage.stage) if planned is None else of_rounds(job, dataset, stage.stage, planned, step)
        for stage, planned, step in zip(job.stages, rehearsal.planned, timed, strict=True)
    ]


def of_rounds(
    job: Job, dataset: Dataset, stage: str, planned: Rehearsed, step: TimedStep | None
) -> StageEstimate:
    """What a stage of rounds will take."""
    plan = planned.plan
    travelling = {name: planned.weights[name] for name in plan.travels}
    one_way = tensor_bytes(plan.compressor.down(travelling)) if travelling else 0
    answers = sum(asked(track, plan) for track in plan.tracks) * plan.rounds
    looked = sum(len(track.judges) for track in plan.tracks) * rounds_evaluated(plan)
    return StageEstimate(
        stage,
        plan.rounds,
        None if step is None else seconds(job, dataset, planned, step),
        one_way,
        one_way if plan.travels else 0,
        one_way * (2 * answers + looked),
        None if step is None else COPIES * tensor_bytes(planned.weights) + step.saved * planned.batch_size,
    )


def seconds(job: Job, dataset: Dataset, planned: Rehearsed, step: TimedStep) -> float:
    """Time of all rounds of a stage: the clients of a round side by side as far as there are workers."""
    plan, workers = planned.plan, job.engine.workers
    made = 0.0
    if planned.on_features:
        made = step.features * sum(
            pictures(dataset, client, split) for client in dataset.clients for split in SPLITS
        )
    each_round = 0.0
    for track in plan.tracks:
        held = [trained_on(dataset, client, track, planned) for client in track.trainers]
        share = asked(track, plan) / max(len(track.trainers), 1)
        each_round += share * (sum(held) * planned.epochs * step.fit + len(held) * step.overhead)
    looks = 0.0
    if plan.split is not None:
        for track in plan.tracks:
            looks += step.look * sum(of_track(dataset, client, plan.split, track) for client in track.judges)
    tests = step.look * sum(pictures(dataset, client, "test") for client in dataset.clients)
    side_by_side = min(
        workers, max((len(track.trainers) for track in plan.tracks), default=1), len(dataset.clients)
    )
    total = made + plan.rounds * each_round + rounds_evaluated(plan) * looks + tests
    return total / max(side_by_side, 1)


def asked(track: Track, plan: Plan) -> int:
    """How many clients train a model in a round."""
    drawn = len(track.trainers) - len(track.always)
    return len(track.always) + (max(1, ceil(plan.participation * drawn - 1e-9)) if drawn else 0)


def rounds_evaluated(plan: Plan) -> int:
    """After how many rounds models are evaluated."""
    return sum(plan.evaluates(round_) for round_ in range(1, plan.rounds + 1))


def trained_on(dataset: Dataset, client: str, track: Track, planned: Rehearsed) -> int:
    """How many pictures a client trains a model on in an epoch."""
    if planned.all_pictures:
        return pictures(dataset, client, "train")
    return track.sizes.get(client, pictures(dataset, client, "train"))


def pictures(dataset: Dataset, client: str, split: Split) -> int:
    """How many pictures of a split a client has; cases, where the job is about lesions."""
    return len(dataset.examples(client, split))


def of_track(dataset: Dataset, client: str, split: Split, track: Track) -> int:
    """How many pictures of a split a client evaluates a model on."""
    names = [*dataset.subgroups, "undeclared"]
    examples = dataset.examples(client, split)
    places = examples.subgroups % len(names)
    return sum(int((places == names.index(name)).sum()) for name in track.subgroups if name in names)

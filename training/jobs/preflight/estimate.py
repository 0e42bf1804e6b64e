"""What a run will take: time, memory and traffic of each stage, from a timed step and the plan of its rounds.

Time is that of this machine where it does nothing else: a step is timed on a few pictures, and the run is
taken to be nothing but such steps and answers. Export, calibration and the writing of files are not in it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from training.data.dataset import Split
from training.federation.census import Census
from training.federation.server.plan import Plan
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
    job: Job, census: Census, rehearsal: Rehearsal, timed: list[TimedStep | None]
) -> list[StageEstimate]:
    """What each stage of a job will take.

    Args:
        job: the job.
        census: who holds what.
        rehearsal: its stages as they will be.
        timed: a step of each.
    """
    return [
        StageEstimate(stage.stage) if planned is None else of_rounds(job, census, stage.stage, planned, step)
        for stage, planned, step in zip(job.stages, rehearsal.planned, timed, strict=True)
    ]


def of_rounds(
    job: Job, census: Census, stage: str, planned: Rehearsed, step: TimedStep | None
) -> StageEstimate:
    """What a stage of rounds will take."""
    plan = planned.plan
    travelling = {name: planned.weights[name] for name in plan.travels}
    one_way = tensor_bytes(plan.compressor.down(travelling)) if travelling else 0
    answers = sum(plan.cohort_size(track) for track in plan.tracks) * plan.rounds
    looked = sum(len(track.judges) for track in plan.tracks) * rounds_evaluated(plan)
    return StageEstimate(
        stage,
        plan.rounds,
        None if step is None else seconds(job, census, planned, step),
        one_way,
        one_way if plan.travels else 0,
        one_way * (2 * answers + looked),
        None if step is None else COPIES * tensor_bytes(planned.weights) + step.saved * planned.batch_size,
    )


def seconds(job: Job, census: Census, planned: Rehearsed, step: TimedStep) -> float:
    """Time of all rounds of a stage: the clients of a round side by side as far as there are workers."""
    plan, workers = planned.plan, job.engine.workers
    made = 0.0
    if planned.on_features:
        made = step.features * sum(int(counts.sum()) for counts in census.counts.values())
    each_round = 0.0
    for track in plan.tracks:
        held = [planned.trained_on(census, track, client) for client in track.trainers]
        share = plan.cohort_size(track) / max(len(track.trainers), 1)
        each_round += share * (sum(held) * planned.epochs * step.fit + len(held) * step.overhead)
    looks = 0.0
    if plan.split is not None:
        for track in plan.tracks:
            share = len(track.judges) / max(len(track.judges), 1)
            looks += (
                share
                * step.look
                * sum(pictures(census, client, plan.split, track.subgroups) for client in track.judges)
            )
    tests = step.look * sum(pictures(census, name, "test", census.all_subgroups) for name in census.counts)
    side_by_side = min(
        workers, max((len(track.trainers) for track in plan.tracks), default=1), len(census.counts)
    )
    total = made + plan.rounds * each_round + rounds_evaluated(plan) * looks + tests
    return total / max(side_by_side, 1)


def rounds_evaluated(plan: Plan) -> int:
    """After how many rounds models are evaluated."""
    return sum(plan.evaluates(round_) for round_ in range(1, plan.rounds + 1))


def pictures(census: Census, client: str, split: Split, subgroups: Sequence[str]) -> int:
    """How many pictures of some subgroups a client has in a split; cases, where the job is about lesions."""
    return census.held(client, split, subgroups, labelled=False)

"""What the round loop adds to the bare gradient work.

A: one round of the round loop (`training.rounds.server.loop.run_rounds`), with everything that a
round has: messages, checks, aggregation, log and a checkpoint that is synced to disk. Evaluation is off.

B: a plain PyTorch loop over the same clients that does the same gradient steps: the same batches in the same
order, the same conversion and augmentation, the same loss, and a fresh fused optimizer for each client, on
one model whose weights are never exchanged. That the two do the very same steps is checked before anything
is timed: for one client, both end with the same weights to the last bit.

A and B alternate in one process at the same number of threads, and who comes first alternates too, so that a
machine whose speed drifts slows both. The figure is the median over pairs of time(A) / time(B). One further
round is timed by part.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
import typer
from numpy.typing import NDArray
from quick import print_conditions, print_table, start
from rich.console import Console
from torch import Tensor

import training.algorithms.objectives.base
import training.files
import training.rounds.client.fit
import training.rounds.server.loop
from clients.store import ClientStore
from registry.bundle.labels import Label
from training.algorithms.augmentations import augment
from training.algorithms.local_model import LocalModel, build_optimizer
from training.algorithms.objectives.epochs import epoch_order, in_batches
from training.algorithms.objectives.supervised import Supervised, SupervisedTask
from training.algorithms.sync import SyncAll
from training.data.dataset import Examples, Split
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.stages.base import StageContext
from training.jobs.stages.federate import Federate
from training.messages import GLOBAL, Update
from training.models import initial_model
from training.models.classifier import float_state, to_model_input
from training.randomness import derive_seed, generator
from training.rounds.census import Census
from training.rounds.server.checkpoint import Checkpoints
from training.rounds.server.loop import fit_broadcast, run_rounds
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import States, TrackState
from training.tensor_file import Spool


@dataclass(frozen=True)
class NoisePictures:
    """Equal clients over one pool of training pictures; implements `training.data.dataset.Dataset`.

    Attributes:
        count: how many clients.
        per_split: training pictures of one client.
        size: pixels on both sides.
    """

    count: int
    per_split: int
    size: int

    labels = (
        Label(code="B", name="Benign", malignancy="benign"),
        Label(code="M", name="Malignant", malignancy="malignant"),
    )
    subgroups = ("light", "dark")
    fingerprint = "noise"
    unseen = ()
    communities: ClassVar[Mapping[str, Sequence[str]]] = {}

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients' ids."""
        return tuple(f"client-{number:04d}" for number in range(self.count))

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """The pool, `(per_split, size, size, 3)`."""
        shape = (self.per_split, self.size, self.size, 3)
        return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)

    def examples(self, client: str, split: Split) -> Examples:
        """The pool, labelled in turn; the subgroup changes every second picture."""
        numbers = np.arange(self.per_split if split == "train" else 0, dtype=np.int64)
        return Examples(self.images, numbers, numbers % 2, numbers // 2 % 2, numbers)


@dataclass(frozen=True)
class Watched:
    """A function to watch: an attribute of a module or class, and under which label its time is booked."""

    label: str
    owner: Any
    name: str


class Stopwatch:
    """Own time by label: what a watched function spends inside another watched one is booked there alone.

    So the labels add up to the time of the outermost watched function.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._inner: list[float] = []  # for each watched call in progress, the time of those within it

    @contextmanager
    def watching(self, functions: Sequence[Watched]) -> Iterator["Stopwatch"]:
        """Clocks around `functions`, taken away at the end."""
        with ExitStack() as stack:
            for one in functions:
                timed = self.timed(one.label, getattr(one.owner, one.name))
                stack.enter_context(patch.object(one.owner, one.name, timed))
            yield self

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with a clock around it."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            started = perf_counter()
            self._inner.append(0.0)
            try:
                return function(*arguments, **named)
            finally:
                elapsed = perf_counter() - started
                self.seconds[label] += elapsed - self._inner.pop()
                self.calls[label] += 1
                if self._inner:
                    self._inner[-1] += elapsed

        return call


CPU = torch.device("cpu")
GRADIENT_WORK = "gradient work"
# What is booked under which label; the rest of the round is under the label of `run_rounds`.
PARTS = (
    Watched(GRADIENT_WORK, training.rounds.client.fit, "train_locally"),
    Watched("seeds and generators", training.rounds.client.fit, "derive_seed"),
    Watched("seeds and generators", training.algorithms.objectives.base, "derive_seed"),
    Watched("seeds and generators", training.algorithms.objectives.base, "generator"),
    Watched("seeds and generators", torch, "manual_seed"),
    Watched("prepare and report a client's task", Supervised, "begin"),
    Watched("prepare and report a client's task", SupervisedTask, "num_examples"),
    Watched("prepare and report a client's task", SupervisedTask, "losses"),
    Watched("forget the optimizer's state", LocalModel, "optimizer"),
    Watched("load weights into the model", LocalModel, "load"),
    Watched("take weights from the model", LocalModel, "take"),
    Watched("name what travels", SyncAll, "shared"),
    Watched("clear the spool", Spool, "clear"),
    Watched("check the updates", training.rounds.server.loop, "validate_updates"),
    Watched("weigh and mix", training.rounds.server.loop, "aggregate"),
    Watched("log", training.rounds.server.loop, "round_line"),
    Watched("log", MetricsLog, "write"),
    Watched("log", MetricsLog, "advance"),
    Watched("checkpoint: write", training.rounds.server.loop, "save"),
    Watched("checkpoint: fsync", training.files.os, "fsync"),
)


@dataclass(frozen=True)
class Duration:
    """Seconds on the clock, and of the processor in this process."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Duration":
        """What both clocks show."""
        return cls(perf_counter(), process_time())

    def since(self, earlier: "Duration") -> "Duration":
        """From an earlier look at the clocks to this one."""
        return Duration(self.wall - earlier.wall, self.cpu - earlier.cpu)


def measured(work: Callable[[], object]) -> Duration:
    """How long `work` takes."""
    started = Duration.now()
    work()
    return Duration.now().since(started)


def describe_job(model: str, size: int, batch_size: int, threads: int, aggregator: str) -> Job:
    """A job of one round, without evaluation."""
    stage = {
        "stage": "federate",
        "rounds": 1,
        "objective": {
            "name": "supervised",
            "batch_size": batch_size,
            "augment": {"flip": True, "rotation": 30, "scale": 0.1, "brightness": 0.1, "contrast": 0.1},
        },
        "aggregator": {"name": aggregator},
        "evaluate_on": None,
    }
    return Job.model_validate(
        {
            "name": "loop-overhead",
            "data": {"adapter": "noise", "image_size": size},
            "model": {"name": model},
            "engine": {"threads_per_client": threads, "device": "cpu"},
            "stages": [stage],
        }
    )


class RoundLoop:
    """A: rounds of the round loop, each from where the last one ended.

    Args:
        job: a job of one round.
        dataset: the clients' pictures.
        folder: an empty folder.
    """

    def __init__(self, job: Job, dataset: NoisePictures, folder: Path) -> None:
        self._folder = folder
        self._rounds = 0
        self._digest = job.digest
        self._engine = InProcessEngine(
            ClientAppParts(job, dataset, ClientStore(folder / "clients")), folder / "spool"
        )
        self._journal = MetricsLog(folder / "metrics.jsonl", Console(quiet=True))
        model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
        stage = job.stages[0]
        assert isinstance(stage, Federate)
        self._plan = stage.plan(
            StageContext(
                job=job,
                digest=job.digest,
                key=job.key(0),
                folder=folder,
                engine=self._engine,
                metrics_log=self._journal,
                labels=dataset.labels,
                subgroups=dataset.subgroups,
                census=Census.of_dataset(dataset),
                fingerprint=dataset.fingerprint,
                model=model,
            )
        )
        weights = {name: tensor.clone() for name, tensor in float_state(model).items()}
        self._states: States = {GLOBAL: TrackState(weights, self._plan.aggregator.initial_state())}

    def round(self) -> None:
        """One round, with a checkpoint folder of its own, so that none is resumed."""
        self._rounds += 1
        checkpoints = Checkpoints(self._folder / f"checkpoints-{self._rounds}", self._digest)
        self._states, _ = run_rounds(self._plan, self._states, self._engine, self._journal, checkpoints)

    def weights_of(self, client: str) -> dict[str, Tensor]:
        """What one client sends after one round of training."""
        track = self._plan.tracks[0]
        broadcast, _ = fit_broadcast(self._plan, track, self._states[GLOBAL], client, 1)
        answer = self._engine.run_round([broadcast])[0]
        assert isinstance(answer, Update), answer
        return dict(answer.tensors)


class BareLoop:
    """B: the same gradient steps in a plain loop on one model."""

    def __init__(self, job: Job, dataset: NoisePictures) -> None:
        stage = job.stages[0]
        assert isinstance(stage, Federate)
        assert isinstance(stage.objective, Supervised)
        self._objective = stage.objective
        self._purpose = (job.seed, job.key(0), GLOBAL, 1)
        self._dataset = dataset
        self.model = (
            initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels))
            .to(memory_format=torch.channels_last)
            .train()
        )

    def round(self) -> None:
        """Every client's steps, one client after another."""
        for client in self._dataset.clients:
            self.train(client)

    def train(self, client: str) -> None:
        """One client's steps."""
        examples = self._dataset.examples(client, "train")
        labels = torch.from_numpy(examples.labels)
        optimizer = build_optimizer(self._objective.optimizer, self.model)
        for positions, images in self._batches(client, examples):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self.model(images), labels[torch.from_numpy(positions)]).backward()
            optimizer.step()

    def _batches(self, client: str, examples: Examples) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        random = generator(*self._purpose, client, "order 0")
        order = epoch_order(examples.labels, self._objective.sampling, random)
        draws = torch.Generator().manual_seed(derive_seed(*self._purpose, client, "augment 0"))
        for positions in in_batches(order, self._objective.batch_size):
            images = to_model_input(examples.batch(positions), CPU)
            yield positions, augment(images, self._objective.augment, draws)


def check_same_steps(loop: RoundLoop, bare: BareLoop, client: str) -> None:
    """Refuse to compare two loops that do not do the same; also warms both up."""
    sent = loop.weights_of(client)
    bare.train(client)
    different = [
        name for name, value in float_state(bare.model).items() if not torch.equal(value, sent[name])
    ]
    if different:
        raise SystemExit(
            f"the two loops do other steps: {len(different)} tensors differ, e.g. {different[0]}"
        )


def run_pairs(loop: RoundLoop, bare: BareLoop, pairs: int) -> list[tuple[Duration, Duration]]:
    """Durations of (loop, bare), the first of a pair in turn."""
    durations = []
    for pair in range(pairs):
        if pair % 2 == 0:
            of_loop = measured(loop.round)
            of_bare = measured(bare.round)
        else:
            of_bare = measured(bare.round)
            of_loop = measured(loop.round)
        durations.append((of_loop, of_bare))
    return durations


def print_pairs(durations: list[tuple[Duration, Duration]]) -> None:
    """Every pair, and the median ratio with its spread."""
    wall = [loop.wall / bare.wall for loop, bare in durations]
    cpu = [loop.cpu / bare.cpu for loop, bare in durations]
    rows = [
        (number, f"{bare.wall:.2f}", f"{loop.wall:.2f}", f"{ratio:.4f}", f"{cpu_ratio:.4f}")
        for number, ((loop, bare), ratio, cpu_ratio) in enumerate(
            zip(durations, wall, cpu, strict=True), start=1
        )
    ]
    rows.append(("median", "", "", f"{median(wall):.4f}", f"{median(cpu):.4f}"))
    rows.append(("spread", "", "", spread(wall), spread(cpu)))
    print_table(("pair", "bare (s)", "loop (s)", "loop / bare", "the same, processor time"), rows)


def spread(ratios: list[float]) -> str:
    """From the least to the greatest."""
    return f"{min(ratios):.4f} to {max(ratios):.4f}"


def print_parts(loop: RoundLoop) -> None:
    """One round by part."""
    watch = Stopwatch()
    with watch.watching(PARTS):
        watch.timed("everything else", loop.round)()
    total = sum(watch.seconds.values())
    rows = [
        (label, watch.calls[label], f"{1000 * seconds:.1f}", f"{seconds / total:.2%}")
        for label, seconds in watch.seconds.most_common()
    ]
    print_table(("part of a round", "calls", "ms", "share"), rows)


def main(
    clients: Annotated[int, typer.Option(help="How many clients.")] = 10,
    pictures: Annotated[int, typer.Option(help="Training pictures of each client.")] = 96,
    size: Annotated[int, typer.Option(help="Pixels on both sides.")] = 64,
    model: Annotated[str, typer.Option(help="A timm model.")] = "resnet18",
    batch_size: Annotated[int, typer.Option(help="Pictures in a batch.")] = 32,
    aggregator: Annotated[str, typer.Option(help="fedavg, fedauto, ...")] = "fedauto",
    pairs: Annotated[int, typer.Option(help="Interleaved pairs of rounds.")] = 3,
    threads: Annotated[int, typer.Option(help="Threads of each loop.")] = 1,
    folder: Annotated[Path | None, typer.Option(help="A folder on the disk for checkpoints.")] = None,
) -> None:
    """Time the round loop against a bare loop that does the same gradient steps."""
    job = describe_job(model, size, batch_size, threads, aggregator)
    dataset = NoisePictures(clients, pictures, size)
    print_conditions(
        "Time of the round loop over the bare gradient work",
        {
            "model": f"{model}, {size} x {size} pixels, batches of {batch_size}, Adam (fused), augmented",
            "clients": f"{clients} with {pictures} training pictures each, one local epoch a round",
            "loop": f"{aggregator}, evaluation off, one checkpoint a round synced to disk",
            "threads": threads,
            "pairs": f"{pairs}, interleaved in one process",
        },
    )
    with tempfile.TemporaryDirectory(dir=folder, prefix="loop-overhead-") as place:
        loop, bare = RoundLoop(job, dataset, Path(place)), BareLoop(job, dataset)
        check_same_steps(loop, bare, dataset.clients[0])
        print_pairs(run_pairs(loop, bare, pairs))
        print_parts(loop)


if __name__ == "__main__":
    start(main, "--clients 2 --pictures 8 --size 32 --batch-size 4 --pairs 1")

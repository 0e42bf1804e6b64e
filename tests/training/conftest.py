"""A federation small enough to compute by hand: three clients of unequal size, made-up pictures."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from clients.store import ClientStore
from registry.bundle.labels import Label
from training.algorithms.client import Client
from training.algorithms.local_model import LocalModel
from training.data.dataset import DECLARED_TONE, SPLITS, Dataset, Examples, Split
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.pipeline import RunResult, run_stages
from training.jobs.stages.base import Attest, Registrar, no_registry, unsigned
from training.messages import Answer, Broadcast
from training.models import build_model
from training.models.classifier import float_state
from training.rounds.server.checkpoint import Checkpoint, Checkpoints
from training.rounds.server.metrics import MetricsLog

LABELS = (
    Label(code="benign", name="Benign", malignancy="benign"),
    Label(code="malignant", name="Malignant", malignancy="malignant"),
)
SUBGROUPS = ("light", "dark")
TONES = (*(f"fitzpatrick {tone}" for tone in range(1, 7)), "")
# Pictures in each split by client and subgroup: no two clients and no two subgroups are alike.
SIZES: Mapping[str, Mapping[str, tuple[int, int, int, int]]] = {
    "north": {"light": (13, 4, 4, 6), "dark": (5, 3, 3, 4)},
    "south": {"dark": (9, 4, 3, 5)},
    "west": {"light": (4, 3, 3, 3), "undeclared": (3, 2, 2, 2)},
}


@dataclass(frozen=True)
class MadeDataset:
    """Pictures in memory; implements `training.data.dataset.Dataset`."""

    held: Mapping[tuple[str, Split], Examples]
    clients: tuple[str, ...]
    labels: tuple[Label, ...] = LABELS
    subgroups: tuple[str, ...] = SUBGROUPS
    fingerprint: str = "sha256:made-up"
    unseen: tuple[str, ...] = ()
    communities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traits: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {DECLARED_TONE: TONES})

    def examples(self, client: str, split: Split) -> Examples:
        return self.held[client, split]


def draw_examples(
    rng: np.random.Generator, by_subgroup: Mapping[str, int], size: int, first: int
) -> Examples:
    """Noise on a colour, darker where malignant. Classes are unequal; the first two share a lesion."""
    places = {**{name: index for index, name in enumerate(SUBGROUPS)}, "undeclared": -1}
    subgroups = np.repeat([places[name] for name in by_subgroup], list(by_subgroup.values())).astype(np.int64)
    n = len(subgroups)
    labels = (np.arange(n) % 3 == 0).astype(np.int64)
    shade = np.where(labels == 1, 70, 150)[:, None, None, None] + 25 * subgroups[:, None, None, None]
    images = np.clip(shade + rng.normal(0, 40, (n, size, size, 3)), 0, 255).astype(np.uint8)
    images.flags.writeable = False
    tones = np.array([0, 3, len(TONES) - 1], dtype=np.int64)[subgroups]  # light is 1, dark is 4, others none
    lesions = first + np.maximum(np.arange(n) - 1, 0)
    return Examples(images, np.arange(n), labels, subgroups, lesions, tones[:, None])


def make(
    sizes: Mapping[str, Mapping[str, tuple[int, int, int, int]]] = SIZES, *, size: int = 16, seed: int = 0
) -> MadeDataset:
    """A dataset with so many pictures in (train, validation, calibration, test), by client and subgroup."""
    rng = np.random.default_rng(seed)
    held: dict[tuple[str, Split], Examples] = {}
    for client, by_subgroup in sizes.items():
        for place, split in enumerate(SPLITS):
            numbers = {name: counts[place] for name, counts in by_subgroup.items()}
            held[client, split] = draw_examples(rng, numbers, size, first=1000 * len(held))
    return MadeDataset(held, tuple(sizes))


def withheld(dataset: MadeDataset, keep: Mapping[str, int | None]) -> MadeDataset:
    """With labels on so many training pictures of each client, on all of them where it is None."""

    def cut(examples: Examples, count: int) -> Examples:
        labels = np.where(np.arange(len(examples)) < count, examples.labels, -1)
        return replace(examples, labels=labels)

    of_training = {(client, "train"): count for client, count in keep.items() if count is not None}
    held = {
        place: cut(examples, of_training[place]) if place in of_training else examples
        for place, examples in dataset.held.items()
    }
    return replace(dataset, held=held)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, blocks merged key by key."""
    both = {
        key: merged(value, changes.get(key, {})) for key, value in base.items() if isinstance(value, dict)
    }
    return {**base, **changes, **both}


BASE: dict[str, Any] = {
    "name": "tiny",
    "seed": 7,
    "data": {
        "manifest": "made-up.csv",
        "image_size": 16,
        "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}},
    },
    "model": {"name": "resnet18", "options": {"channels": [4, 8, 16, 32], "layers": [1, 1, 2, 2]}},
    "engine": {"workers": 1, "threads_per_client": 1, "device": "cpu"},
    "privacy": {"min_count": 2},
}
FEDERATE: dict[str, Any] = {
    "stage": "federate",
    "rounds": 2,
    "objective": {
        "name": "supervised",
        "epochs": 1,
        "batch_size": 6,
        "optimizer": {"name": "sgd", "lr": 0.02, "momentum": 0.9},
    },
    "aggregator": {"name": "fedavg"},
}


@dataclass
class Ran:
    """A finished run: what it returned and what it left."""

    result: RunResult
    out: Path
    store: ClientStore
    lines: list[dict[str, Any]] = field(default_factory=list)

    def weights(self, key: str = "0-federate", model: str = "global") -> dict[str, torch.Tensor]:
        return dict(self.result.stages[key].outcome.models[model])


@pytest.fixture(autouse=True)
def one_thread_and_a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DERMFED_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # or what a test draws would depend on those that ran before it
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., MadeDataset]:
    """`make_dataset(sizes, size=16, seed=0)`: pictures by client, subgroup and split."""
    return make


@pytest.fixture(scope="session")
def dataset() -> MadeDataset:
    """Three clients: north holds 13 light and 5 dark training pictures, south 9 dark, west 4 light and 3
    undeclared."""
    return make()


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    """`make_job(stages=[...], **blocks)`: a tiny job; `federate={...}` changes its one stage of rounds."""

    def build(*, federate: Mapping[str, Any] | None = None, **changes: Any) -> Job:
        stages = changes.pop("stages", [merged(FEDERATE, federate or {})])
        return Job.model_validate({**merged(BASE, changes), "stages": stages})

    return build


@pytest.fixture(scope="session")
def federate_block() -> Callable[..., dict[str, Any]]:
    """`federate_block(**changes)`: the stage of rounds of a tiny job, as plain data."""

    def build(**changes: Any) -> dict[str, Any]:
        return merged(FEDERATE, changes)

    return build


@pytest.fixture
def encoder_file(make_job: Callable[..., Job], tmp_path: Path) -> str:
    """The path of a file of drawn weights for the tiny jobs' encoder."""
    drawn = float_state(build_model(make_job().model, 5, seed=11))
    path = tmp_path / "encoder.safetensors"
    save_file({name.removeprefix("encoder."): tensor for name, tensor in drawn.items()}, path)
    return str(path)


@pytest.fixture
def begun_job(make_job: Callable[..., Job], encoder_file: str) -> Callable[..., Job]:
    """`make_job` for jobs whose encoder begins with weights from a file."""
    return lambda **changes: make_job(**{"model": {"weights": encoder_file}, **changes})


@pytest.fixture
def run_job(tmp_path: Path, dataset: MadeDataset) -> Callable[..., Ran]:
    """`run_job(job, data=dataset, out=tmp_path / "run")`: run a job's stages in this process."""

    def run(
        job: Job,
        data: Dataset | None = None,
        out: Path | None = None,
        registrar: Registrar = no_registry,
        attest: Attest = unsigned,
        **engine_parts: Any,
    ) -> Ran:
        folder = out or tmp_path / "run"
        pictures = data or dataset
        store = ClientStore(folder / "clients")
        engine = InProcessEngine(ClientAppParts(job, pictures, store), folder / "spool", **engine_parts)
        try:
            with MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log:
                result = run_stages(job, pictures, engine, metrics_log, folder, registrar, attest=attest)
                lines = metrics_log.lines()
        finally:
            engine.close()
        return Ran(result, folder, store, lines)

    return run


@pytest.fixture
def run_killed(
    run_job: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """`run_killed(job, data=dataset)`: a run that is killed when round 2 is saved, and then resumed."""
    save = Checkpoints.save

    def save_and_stop(self: Checkpoints, checkpoint: Checkpoint) -> None:
        save(self, checkpoint)
        if checkpoint.round == 2:
            raise KeyboardInterrupt

    def run(job: Job, data: Dataset | None = None) -> Ran:
        folder = tmp_path / "killed"
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoints, "save", save_and_stop)
            with pytest.raises(KeyboardInterrupt):
                run_job(job, data, out=folder)
        return run_job(job, data, out=folder)

    return run


@pytest.fixture
def on_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Broadcast, Answer], Answer]], None]:
    """`on_answers(change)`: `change(request, answer)` is what the coordinator gets from now on."""
    real = InProcessEngine.run_round

    def arrange(change: Callable[[Broadcast, Answer], Answer]) -> None:
        def run_round(self: InProcessEngine, broadcasts: Sequence[Broadcast]) -> list[Answer]:
            return [change(*pair) for pair in zip(broadcasts, real(self, broadcasts), strict=True)]

        monkeypatch.setattr(InProcessEngine, "run_round", run_round)

    return arrange


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Let the power fail (a KeyboardInterrupt) at the n-th time that something is made durable; 0 never.

    Gives the list of what was made durable since.
    """
    real = os.fsync
    calls: list[int] = []

    def arm(n: int) -> list[int]:
        calls.clear()

        def fsync(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == n:
                raise KeyboardInterrupt
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        return calls

    return arm


@pytest.fixture
def make_client(tmp_path: Path, dataset: MadeDataset, make_job: Callable[..., Job]) -> Callable[..., Client]:
    """`make_client("north", data=dataset, job=make_job())`: a client with its own store and local model."""

    def build(name: str = "north", data: Dataset | None = None, job: Job | None = None) -> Client:
        job, pictures = job or make_job(), data or dataset
        local_model = LocalModel(build_model(job.model, len(pictures.labels), seed=1), "cpu")
        store = ClientStore(tmp_path / "store")
        return Client(name, job.seed, job.privacy.min_count, pictures, store, local_model)

    return build

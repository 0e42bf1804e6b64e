"""Two hospitals, one of light skin and one of dark: pictures in memory, and a stage set up to run on them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from clients.store import ClientStore
from registry.bundle.labels import Label
from training.data.dataset import DECLARED_TONE, SPLITS, Dataset, Examples, Split
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.stages.base import StageContext, StageResult
from training.messages import GLOBAL, Tensors
from training.models import build_model
from training.models.classifier import float_state
from training.rounds.census import Census
from training.rounds.server.metrics import MetricsLog

LABELS = tuple(
    Label(code=code, name=code.title(), malignancy=malignancy)
    for code, malignancy in (("mel", "malignant"), ("nv", "benign"), ("bkl", "benign"))
)
SUBGROUPS = ("light", "dark")
# Pictures in train, validation, calibration and test: the subgroups are of unequal size.
SIZES = {"light": (22, 13, 40, 17), "dark": (9, 7, 12, 11)}
SIDE = 16


@dataclass(frozen=True)
class Hospitals:
    """Pictures in memory; implements `training.data.dataset.Dataset`."""

    held: Mapping[tuple[str, Split], Examples]
    clients: tuple[str, ...]
    labels: tuple[Label, ...] = LABELS
    subgroups: tuple[str, ...] = SUBGROUPS
    fingerprint: str = "sha256:" + "0" * 64
    unseen: tuple[str, ...] = ()
    communities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traits: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {DECLARED_TONE: (*(f"fitzpatrick {tone}" for tone in "1256"), "")}
    )

    def examples(self, client: str, split: Split) -> Examples:
        return self.held[client, split]

    def with_labels(self, split: Split, change: Callable[[np.ndarray], np.ndarray]) -> "Hospitals":
        """The same pictures with other labels in one split."""
        held = {
            (client, of): replace(part, labels=change(part.labels)) if of == split else part
            for (client, of), part in self.held.items()
        }
        return replace(self, held=held)


def draw(sizes: Mapping[str, tuple[int, int, int, int]], clients: Mapping[str, str]) -> Hospitals:
    """So many pictures of each subgroup; `clients` says which subgroup each client holds."""
    rng = np.random.default_rng(5)
    held: dict[tuple[str, Split], Examples] = {}
    for client, subgroup in clients.items():
        for place, split in enumerate(SPLITS):
            n = sizes[subgroup][place]
            labels = rng.choice(len(LABELS), n, p=[0.3, 0.5, 0.2])
            colours = np.array([[170, 90, 90], [110, 140, 90], [120, 110, 160]])[labels]
            shades = colours + rng.normal(0, 40, (n, 3))  # classes overlap in colour
            images = shades[:, None, None, :] + rng.normal(0, 40, (n, SIDE, SIDE, 3))
            images = np.clip(images - 40 * SUBGROUPS.index(subgroup), 0, 255).astype(np.uint8)
            # Every fifth picture is a second one of the lesion before it.
            lesions = 1000 * len(held) + np.arange(n) - (np.arange(n) % 5 == 4)
            group = SUBGROUPS.index(subgroup)
            # Every tenth lesion is of the darker tone of its subgroup, the others of the lighter one.
            tones = 2 * group + (lesions % 10 == 0)
            held[client, split] = Examples(
                images, np.arange(n), labels, np.full(n, group), lesions, tones[:, None]
            )
    return Hospitals(held, tuple(clients))


@dataclass
class Stand:
    """One stage of a job, ready to run."""

    context: StageContext
    start: Tensors
    told: StringIO

    def run(self, before: StageResult | None = None) -> StageResult:
        place = int(self.context.key.partition("-")[0])
        return self.context.job.stages[place].run(self.context, before or StageResult({GLOBAL: self.start}))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def hospitals() -> Hospitals:
    """One client per subgroup: north holds light skin, south dark skin."""
    return draw(SIZES, {"north": "light", "south": "dark"})


@pytest.fixture
def draw_hospitals() -> Callable[..., Hospitals]:
    """`draw_hospitals(sizes, clients)`."""
    return draw


@pytest.fixture
def make_job() -> Callable[..., Job]:
    """`make_job(stages, **blocks)`: a job on pictures in memory."""

    def build(stages: list[dict[str, Any]], **blocks: Any) -> Job:
        data = {
            "manifest": "in-memory.csv",
            "image_size": SIDE,
            "subgroups": {"scale": "fitzpatrick", "groups": {"light": ["1", "2"], "dark": ["5", "6"]}},
        }
        job = {
            "name": "tiny",
            "seed": 7,
            "data": data,
            "model": {"name": "resnet18", "options": {"channels": [4, 8, 16, 32]}},
            "engine": {"device": "cpu"},
            "privacy": {"min_count": 2},
            "stages": stages,
            **blocks,
        }
        return Job.model_validate(job)

    return build


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Callable[..., Stand]]:
    """`stand(job, dataset, place=0, name="run")`: a stage of a job with an engine that runs its clients."""
    opened: list[InProcessEngine] = []

    def build(job: Job, dataset: Dataset, place: int = 0, name: str = "run") -> Stand:
        out = tmp_path / name
        engine = InProcessEngine(ClientAppParts(job, dataset, ClientStore(out / "clients")), out / "spool")
        opened.append(engine)
        model, told = build_model(job.model, len(dataset.labels), seed=1), StringIO()
        context = StageContext(
            job=job,
            digest=job.digest,
            key=job.key(place),
            folder=out / "checkpoints" / job.key(place),
            engine=engine,
            metrics_log=MetricsLog(out / "metrics.jsonl", Console(file=told)),
            labels=dataset.labels,
            subgroups=tuple(dataset.subgroups),
            census=Census.of_dataset(dataset),
            fingerprint=dataset.fingerprint,
            model=model,
        )
        return Stand(context, {name: tensor.clone() for name, tensor in float_state(model).items()}, told)

    yield build
    for engine in opened:
        engine.close()

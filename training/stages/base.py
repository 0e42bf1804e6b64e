"""What a stage is: a question-asking half at the coordinator and an answering half at each client."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from registry.bundle.labels import Label
from registry.bundle.schema import BundleManifest
from training.census import Census
from training.client import Client
from training.config import FrozenConfig
from training.engines.base import Engine
from training.evaluation import Blocks
from training.journal import Journal
from training.messages import Broadcast, Tensors, Update
from training.models import Classifier
from training.polling import Traffic
from training.registrar import Registrar, no_registry

if TYPE_CHECKING:
    from training.job import Job


@dataclass(frozen=True)
class Setting:
    """What a stage finds at the coordinator.

    Attributes:
        job: the job.
        key: this stage's key, e.g. `0-federate`.
        folder: where this stage keeps its checkpoints.
        engine: asks the clients.
        journal: the run's log.
        labels, subgroups: the classes and the subgroups' names, in order.
        census: who holds what.
        fingerprint: of the data.
        communities: clients by the source that they are parts of, where the job has sources.
        model: the job's model with its initial weights; a stage leaves it as it is.
        registrar: where released models go.
        dismissed: clients that took part and are asked no more, and since when.
    """

    job: "Job"
    key: str
    folder: Path
    engine: Engine
    journal: Journal
    labels: Sequence[Label]
    subgroups: tuple[str, ...]
    census: Census
    fingerprint: str
    model: Classifier
    registrar: Registrar = no_registry
    communities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dismissed: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> tuple[str, ...]:
        """Subgroups of whose pictures figures are made, `undeclared` included."""
        return self.census.places

    @property
    def canary(self) -> bool:
        """Whether every client tries two batches before round 1: in the first stage, over a network."""
        engine = self.job.engine
        return engine.name == "nvflare" and engine.network.canary and self.key == self.job.key(0)


@dataclass(frozen=True)
class Graded:
    """A bundle in the making: its manifest and its graph."""

    manifest: BundleManifest
    graph: bytes


@dataclass(frozen=True)
class Outcome:
    """What a stage leaves for the next one, and what it says about itself.

    Attributes:
        models: weights by name: `global`, and subgroups that have their own.
        bundles: what is to be released, by the same names.
        rounds: how many rounds it took.
        traffic: bytes sent.
        test: counts on the test split by subgroup, from the model that answers for it.
        facts: JSON-able details for the report and the summary.
        stay_home: whether `test` is of models that stay at their clients, and not of `models`.
    """

    models: Mapping[str, Tensors]
    bundles: Mapping[str, Graded] = field(default_factory=dict)
    rounds: int = 0
    traffic: Traffic = field(default_factory=Traffic)
    test: Blocks = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    stay_home: bool = False


class Stage(FrozenConfig, ABC):
    """One step of a job.

    Attributes:
        stage: its name in a job file.
        passes_figures_on: whether its outcome's test figures are those of the stage before.
        summed: the questions of whose answers only the sum is wanted: counts, and what adds up like them.
        needs_everyone: whether its rounds need an answer of all that are asked, whatever the job's minimum.
    """

    stage: str
    passes_figures_on: ClassVar[bool] = False
    summed: ClassVar[frozenset[str]] = frozenset()
    needs_everyone: ClassVar[bool] = False

    @property
    def tells_of_clients(self) -> bool:
        """Whether it cannot do without figures of each client."""
        return False

    def inherit(self, earlier: Sequence["Stage"]) -> "Stage":
        """The stage with what it takes over from the stages before it in the job filled in."""
        return self

    @abstractmethod
    def run(self, setting: Setting, before: Outcome) -> Outcome:
        """The coordinator's half, from what the stage before left."""

    def tidy(self, folder: Path) -> None:
        """Remove what the stage's saved outcome has made unnecessary; may run more than once."""
        return

    @abstractmethod
    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's half: the answer to one of this stage's questions."""

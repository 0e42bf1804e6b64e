"""The stage interface: a half that asks at the coordinator, and a half that answers at each client.

A run signs its bundles by an `Attest` and registers its models by a `Registrar`, without knowing keys or the
registry: the caller provides both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from registry.bundle.folder import Bundle
from registry.bundle.labels import Label
from registry.bundle.manifest import BundleManifest, without_attestation
from training.algorithms.client import Client
from training.algorithms.sync import BUFFERS
from training.config import FrozenConfig
from training.data.dataset import Split
from training.errors import JobError, QuorumError
from training.jobs.settings import JobSettings
from training.messages import GLOBAL, Broadcast, Engine, Tensors, Update
from training.models import Classifier
from training.models.encoder_files import Preprocessing
from training.privacy.settings import CountsConfig, PrivacyConfig
from training.rounds.census import Census
from training.rounds.client.fit import FEWEST_IN_BATCH
from training.rounds.requests import Blocks
from training.rounds.server.ask import Quorum, Traffic
from training.rounds.server.checkpoint import Checkpoints
from training.rounds.server.loop import AfterRound, run_rounds
from training.rounds.server.metrics import MetricsLog
from training.rounds.server.plan import Plan, States, Track

Attest = Callable[[BundleManifest], BundleManifest]
"""Signs the figures of a manifest, in the place of a signature that it had."""


def unsigned(manifest: BundleManifest) -> BundleManifest:
    """Signs nothing; a signature of an earlier stage, over other figures, is gone."""
    return without_attestation(manifest)


@dataclass(frozen=True)
class Registered:
    """The result of registering a run's models.

    Attributes:
        numbers: the version of each bundle, in their order.
        refused: why they were not promoted, if they should have been; the versions are there all the same.
    """

    numbers: tuple[int, ...]
    refused: str | None = None


class Registrar(Protocol):
    """Adds bundles and, if an alias is named, promotes all of them in one release."""

    def __call__(self, bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
        """Registers the bundles of one model."""
        ...


def no_registry(bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
    """The registrar of a run without a registry: refuses.

    Raises:
        JobError: always.
    """
    raise JobError(
        "this run was given no registry; start it with `dermfed-train`, or leave out the stage register"
    )


@dataclass(frozen=True)
class StageContext:
    """The context in which a stage runs at the coordinator.

    Attributes:
        job: the job's settings.
        digest: what determines the weights, see `training.jobs.job.Job.digest`.
        key: this stage's key, e.g. `0-federate`.
        folder: where this stage keeps its checkpoints.
        engine: asks the clients.
        metrics_log: the run's log.
        labels, subgroups: the classes and the subgroups' names, in order.
        census: who holds what.
        fingerprint: of the data.
        communities: clients by the source that they are parts of, where the job has sources.
        model: the job's model with its initial weights; a stage leaves it as it is.
        registrar: where released models go.
        dismissed: clients that took part and are asked no more, and since when.
        tests: whether this stage counts test pictures; with noise on counts only the last one that can does.
        attest: signs the figures of bundles.
        quorum: of its requests outside the rounds, and who is missing from their answers.
    """

    job: JobSettings
    digest: str
    key: str
    folder: Path
    engine: Engine
    metrics_log: MetricsLog
    labels: Sequence[Label]
    subgroups: tuple[str, ...]
    census: Census
    fingerprint: str
    model: Classifier
    registrar: Registrar = no_registry
    communities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dismissed: Mapping[str, str] = field(default_factory=dict)
    tests: bool = True
    attest: Attest = unsigned
    quorum: Quorum = field(default_factory=Quorum)

    @property
    def missing(self) -> dict[str, Any]:
        """What is missing from this stage's metrics: how many hospitals, and test pictures by subgroup.

        Empty where none is. It names no hospital: it goes into bundles.
        """
        gone = [name for name in self.census.all_hospitals if name in self.quorum.missing]
        if not gone:
            return {}
        by_subgroup = {}
        for name in self.all_subgroups:
            holders = self.census.hospitals("test", [name])
            lost = [client for client in holders if client in gone]
            if lost:
                by_subgroup[name] = {
                    "clients": len(lost),
                    "of": len(holders),
                    "pictures": sum(self.census.held(client, "test", [name]) for client in lost),
                    "held": sum(self.census.held(client, "test", [name]) for client in holders),
                }
        return {"clients": len(gone), "of": len(self.census.all_hospitals), "by_subgroup": by_subgroup}

    @property
    def all_subgroups(self) -> tuple[str, ...]:
        """The subgroups for which figures are computed, `undeclared` included."""
        return self.census.all_subgroups

    def judges(self, split: Split, subgroups: Sequence[str]) -> tuple[str, ...]:
        """Who is asked for counts of these subgroups' pictures: the hospitals that hold any.

        Where counts are summed under masks it is every hospital, and those that hold none add zeros: sums of
        the same pictures over other hospitals would tell by subtraction what a single one holds.
        """
        holders = self.census.hospitals(split, subgroups)
        masked = self.job.privacy.masked_counts is not None
        return self.census.all_hospitals if masked and holders else holders

    def trainers(self, subgroups: Sequence[str], *, masked: bool) -> tuple[str, ...]:
        """Who is asked for sums over training pictures of these subgroups: the clients that hold any.

        Under masks every hospital is, as `judges` says; clients that train nothing are not.
        """
        holders = [name for name in self.census.holders("train", subgroups) if name not in self.census.unseen]
        also = self.census.all_hospitals if masked else ()
        return tuple(name for name in self.census.counts if name in holders or name in also)

    def run_rounds(
        self, plan: Plan, states: States, after_round: AfterRound | None = None
    ) -> tuple[States, Traffic]:
        """All rounds of this stage, from its newest checkpoint on; gives the models and the traffic."""
        checkpoints = Checkpoints(self.folder, self.digest)
        return run_rounds(plan, states, self.engine, self.metrics_log, checkpoints, after_round)

    @property
    def shown(self) -> Preprocessing:
        """How the job's models are shown pictures."""
        return Preprocessing(
            normalisation=self.model.normalisation, interpolation=self.job.picture.interpolation
        )

    @property
    def canary(self) -> bool:
        """Whether every client tries two batches before round 1: in the first stage, over a network."""
        engine = self.job.engine
        return engine.name == "nvflare" and engine.network.canary and self.key.startswith("0-")


@dataclass(frozen=True)
class BundleDraft:
    """A bundle in the making.

    Attributes:
        manifest: as it is so far.
        graph: the model.
        folds: what follows the encoder in models that are trained without one fold each, as graphs.
    """

    manifest: BundleManifest
    graph: bytes
    folds: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class StageResult:
    """The result of a stage: models and bundles for the next one, test counts and facts for the report.

    Attributes:
        models: weights by name: `global`, and subgroups that have their own.
        bundles: what is to be released, by the same names.
        rounds: how many rounds it took.
        traffic: bytes sent.
        test: counts on the test split by subgroup, from the model that answers for it.
        facts: JSON-able details for the report and the summary.
        tests_local_models: whether `test` is of other models than `models`: of those that stay at their
            clients, or of a probe.
        folds: of the models that are cross-fitted, by name: what differs in those without each fold.
    """

    models: Mapping[str, Tensors]
    bundles: Mapping[str, BundleDraft] = field(default_factory=dict)
    rounds: int = 0
    traffic: Traffic = field(default_factory=Traffic)
    test: Blocks = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    tests_local_models: bool = False
    folds: Mapping[str, tuple[Tensors, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedStage:
    """What a stage of rounds will do.

    Attributes:
        plan: of its rounds.
        weights: what its models begin with.
        epochs: over a client's pictures in a round.
        batch_size: pictures in a batch.
        all_pictures: whether it trains on pictures without a label, too.
        whole: whether all of the network learns, normalisation with statistics of a batch among it.
    """

    plan: Plan
    weights: Tensors
    epochs: int
    batch_size: int
    all_pictures: bool = False
    whole: bool = False

    def require_batches(self, census: Census) -> None:
        """Refuse batches without a variance, and clients that are to train and cannot make a batch.

        Raises:
            JobError: a batch has no variance.
            QuorumError: naming clients that cannot, where too few others are left.
        """
        if (
            self.whole
            and self.batch_size < FEWEST_IN_BATCH
            and any(name.endswith(BUFFERS) for name in self.weights)
        ):
            raise JobError(
                f"objective.batch_size is {self.batch_size}, and the model has batch normalisation, which "
                f"needs {FEWEST_IN_BATCH} pictures in a batch; raise it, or choose a model without"
            )
        for track in self.plan.tracks if self.epochs else ():
            alone = [
                name for name in track.trainers if self.trained_on(census, track, name) < FEWEST_IN_BATCH
            ]
            everybody = len(track.trainers)
            needed = everybody if self.plan.min_clients is None else min(self.plan.min_clients, everybody)
            if alone and everybody - len(alone) < max(needed, 1):
                whose = "" if track.name in (GLOBAL, *alone) else f" of {track.name}"
                raise QuorumError(
                    f"{', '.join(alone)} {'has' if len(alone) == 1 else 'have'} one training picture{whose}, "
                    "and a batch is of two at least; bring more, merge it with another client or subgroup "
                    "(data.clients, data.subgroups), or set engine.min_clients"
                )

    def trained_on(self, census: Census, track: Track, client: str) -> int:
        """How many pictures a client trains a model on."""
        if self.all_pictures:
            return census.held(client, "train", census.all_subgroups, labelled=False)
        return track.sizes.get(client, census.held(client, "train", census.all_subgroups))


class Stage(FrozenConfig, ABC):
    """One step of a job.

    Attributes:
        stage: its name in a job file.
        passes_figures_on: whether its outcome's test figures are those of the stage before.
        summed: the requests of whose answers only the sum is wanted: counts, and what adds up like them.
        needs_everyone: whether its rounds need an answer of all that are asked, whatever the job's minimum.
        keeps_model: whether the model leaves the stage as it came.
        quorate: the requests outside its rounds that need answers of the share `evaluation.quorum` alone.
        asks_exactly: whether it requests statistics of evaluation pictures that cannot be reported with
            noise.
    """

    stage: str
    passes_figures_on: ClassVar[bool] = False
    summed: ClassVar[frozenset[str]] = frozenset()
    needs_everyone: ClassVar[bool] = False
    keeps_model: ClassVar[bool] = False
    quorate: ClassVar[frozenset[str]] = frozenset()
    asks_exactly: ClassVar[bool] = False

    @property
    def without_cases(self) -> str | None:
        """What of it cannot learn from cases of several pictures and facts; None where all of it can."""
        return None

    @property
    def one_encoder(self) -> bool:
        """Whether it trains or judges an encoder, and there can be one alone."""
        return False

    @property
    def routes_by_tone(self) -> bool:
        """Whether it makes models for subgroups of declared skin tone."""
        return False

    @property
    def needs_client_figures(self) -> bool:
        """Whether it cannot do without figures of each client."""
        return False

    @property
    def needs_folds(self) -> bool:
        """Whether it goes on from heads that are cross-fitted."""
        return False

    @property
    def compares_models(self) -> bool:
        """Whether it counts what one model gets right that another got wrong, which no noise covers."""
        return False

    def evaluation_units(self, counts: CountsConfig) -> Mapping[Split, int]:
        """What its requests before the test cost a patient of each split, in parts reported with noise."""
        return {}

    @property
    def test_units(self) -> int:
        """What its test costs a test patient, in the same units; 0 where it has none."""
        return 0

    @property
    def num_rounds(self) -> int | None:
        """How many rounds it takes; None where it is not made of rounds."""
        return None

    def inherit(self, earlier: Sequence["Stage"]) -> "Stage":
        """The stage with what it takes over from the stages before it in the job filled in."""
        return self

    def require_data(self, census: Census, labels: Sequence[Label], privacy: PrivacyConfig) -> None:
        """Refuse data of which this stage could make nothing, before the first stage begins.

        Raises:
            JobError: saying why, and what to change.
        """
        return

    def plan_ahead(self, context: StageContext) -> PlannedStage | None:
        """Plan the stage, and refuse what would stop it later; sends no request, changes nothing.

        Returns:
            What it will do; None where it trains nothing.

        Raises:
            TrainingError: saying why, and what to change.
        """
        return None

    def look_ahead(self, context: StageContext) -> PlannedStage | None:
        """All that can be refused before the first stage begins; what the stage plans, if it trains.

        Raises:
            TrainingError: what would stop the stage, and what to change.
        """
        self.require_data(context.census, context.labels, context.job.privacy)
        planned = self.plan_ahead(context)
        if planned is not None:
            planned.require_batches(context.census)
        return planned

    @abstractmethod
    def run(self, context: StageContext, before: StageResult) -> StageResult:
        """The coordinator's half, from what the stage before left."""

    def tidy(self, folder: Path) -> None:
        """Remove what the stage's saved outcome has made unnecessary; may run more than once."""
        return

    @abstractmethod
    def answer(self, broadcast: Broadcast, client: Client) -> Update:
        """A client's half: the answer to one of this stage's requests."""

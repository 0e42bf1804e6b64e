"""The job file: everything that determines a run's weights, checked before anything starts."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from training.compression.config import CompressionConfig
from training.config import IDENTITY, FrozenConfig, describe
from training.data import DataConfig
from training.errors import JobError
from training.intersections import IntersectionConfig, each_column_once
from training.job_file import read_plain
from training.models import ModelConfig
from training.privacy.config import PrivacyConfig
from training.privacy.refusals import refuse_unfit
from training.stages import ORDER, STAGES
from training.stages.base import Stage
from training.tracking.config import TrackingConfig
from training.workbench import Device, Precision


class About(FrozenConfig):
    """What a recipe is: shown by `--recipes`, of no effect on a run."""

    system: str
    paper: str
    note: str = ""


class NetworkConfig(FrozenConfig):
    """How long sites of a network are waited for.

    Attributes:
        silence: seconds without a sign of life after which a site is taken to be away.
        first_deadline: seconds for an answer of a kind that a site has not given yet.
        slack: after that, how many times its slowest recent answer of the kind may take.
        shortest_deadline: seconds that every answer may take.
        enough: whether a round ends as soon as it has `engine.min_clients` answers; others come too late.
        canary: whether every site tries two batches before the first round; of no effect on the weights.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"canary"})
    silence: float = Field(60, gt=0)
    first_deadline: float = Field(24 * 3600, gt=0)
    slack: float = Field(5, ge=1)
    shortest_deadline: float = Field(60, gt=0)
    enough: bool = False
    canary: bool = True


class EngineConfig(FrozenConfig):
    """Where clients run.

    Attributes:
        name: `in-process`, on this machine; `nvflare`, at the hospitals of a federation.
        workers: processes; does not change the weights.
        threads_per_client: threads of each client's arithmetic; does change the last digits of the weights.
        min_clients: answers that a round needs; by default of all that were asked.
        update_limit: an update whose norm is over so many times the round's median is refused, see
            `training.outsized`; null refuses none. Runs that meet no such update are as without it.
        network: how long sites are waited for, where clients run at sites of a network.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"network", "update_limit"})
    name: Literal["in-process", "nvflare"] = "in-process"
    workers: int = Field(1, ge=1)
    threads_per_client: int = Field(1, ge=1)
    min_clients: int | None = Field(None, ge=1)
    update_limit: float | None = Field(20.0, gt=1)
    device: Device = "auto"
    precision: Precision = "float32"
    network: NetworkConfig = NetworkConfig()


class EvaluationConfig(FrozenConfig):
    """How test figures are made.

    Attributes:
        replicates: bootstrap replicates drawn by lesion, from which intervals come.
        intersections: columns of the manifests whose intersections with subgroups are judged, too.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"intersections"})
    replicates: int = Field(200, ge=0, le=2000)
    intersections: tuple[IntersectionConfig, ...] = ()

    @field_validator("intersections")
    @classmethod
    def _each_column_once(cls, named: tuple[IntersectionConfig, ...]) -> tuple[IntersectionConfig, ...]:
        each_column_once(named)
        return named

    @property
    def traits(self) -> dict[str, tuple[str, ...]]:
        """The columns, and their values as far as they are known before any picture is."""
        return {each.column: each.values for each in self.intersections}


class Job(FrozenConfig):
    """A job file."""

    added_later: ClassVar[frozenset[str]] = frozenset({"compression", "tracking"})
    version: Literal[1] = 1
    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seed: int = 0
    about: About | None = None
    data: DataConfig
    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    compression: CompressionConfig = CompressionConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tracking: TrackingConfig = TrackingConfig()
    stages: tuple[Annotated[Stage, STAGES], ...] = Field(min_length=1)

    @field_validator("stages")
    @classmethod
    def _inherit(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        filled: list[Stage] = []
        for stage in stages:
            filled.append(stage.inherit(filled))
        return tuple(filled)

    @model_validator(mode="after")
    def _stages_in_order(self) -> "Job":
        names = [stage.stage for stage in self.stages]
        places = [ORDER.index(name) if name in ORDER else len(ORDER) for name in names]
        if places != sorted(places):
            raise ValueError(f"stages run in the order {', '.join(ORDER)}; these are {', '.join(names)}")
        if "calibrate" in names and "export" not in names:
            raise ValueError("calibrate works on the exported graph; put {stage: export} before it")
        if "finetune" in names and "export" in names and "federate" not in names:
            raise ValueError(
                "finetune leaves a model at each client and none to export; add a stage federate"
            )
        return self

    @model_validator(mode="after")
    def _privacy_holds(self) -> "Job":
        refuse_unfit(self.privacy, self.compression, self.stages, self.data)
        return self

    def key(self, place: int) -> str:
        """The key of the stage at `place`, e.g. `0-federate`."""
        return f"{place}-{self.stages[place].stage}"

    def stage(self, key: str) -> Stage:
        """The stage with this key."""
        return self.stages[int(key.partition("-")[0])]

    def resolved(self) -> dict[str, Any]:
        """The job with every default filled in, as plain data."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """What determines the weights, in one word; where clients run, curves and notes do not."""
        network = self.engine.network.model_copy(update={"canary": True})
        engine = self.engine.model_copy(update={"network": network})
        alike = self.model_copy(update={"engine": engine, "tracking": TrackingConfig()})
        plain = alike.model_dump(mode="json", context=IDENTITY)
        plain.pop("about")
        plain["engine"].pop("workers")
        plain["engine"]["name"] = "in-process"
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_job(path: Path, changes: Sequence[str] = ()) -> Job:
    """Read and check a job file; see `training.job_file` for files that extend another.

    Args:
        path: the YAML file.
        changes: `key.path=value` overrides; a number or a stage's name picks from `stages`.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    raw = read_plain(path, changes)
    try:
        return Job.model_validate(raw)
    except ValidationError as error:
        raise JobError(f"{path}:\n" + "\n".join(describe(error))) from error

"""The job file: everything that determines a run's weights, checked before anything starts."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from training.config import describe
from training.errors import JobError
from training.jobs.compatibility import (
    refuse_growing_pictures,
    refuse_routing_by_others,
    refuse_several_encoders,
    refuse_uncrossed,
    refuse_unfit,
    refuse_unknowing_encoder,
    refuse_without_cases,
)
from training.jobs.job_file import read_plain
from training.jobs.settings import JobSettings, TrackingConfig
from training.jobs.stage_order import ORDER
from training.jobs.stages import STAGES
from training.jobs.stages.base import Stage


class Job(JobSettings):
    """A job file: its settings, and the stages that run one after the other."""

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
        if "register" in names and "export" not in names and set(names) <= set(ORDER):
            raise ValueError("register adds exported models to the registry; put {stage: export} before it")
        if "finetune" in names and "export" in names and "federate" not in names:
            raise ValueError(
                "finetune leaves a model at each client and none to export; add a stage federate"
            )
        return self

    @model_validator(mode="after")
    def _privacy_holds(self) -> "Job":
        refuse_unfit(self.privacy, self.compression, self.stages, self.data, tuple(self.evaluation.traits))
        return self

    @model_validator(mode="after")
    def _model_and_data_fit(self) -> "Job":
        refuse_without_cases(self.stages, self.data, self.model)
        refuse_unknowing_encoder(self.stages, self.model)
        refuse_several_encoders(self.stages, self.model, self.privacy)
        refuse_growing_pictures(self.stages, self.data)
        refuse_routing_by_others(self.stages, self.data)
        refuse_uncrossed(self.stages, self.data)
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
        """What determines the weights, in one word; where clients run, masks on counts, and notes do not."""
        network = self.engine.network.model_copy(update={"canary": True})
        engine = self.engine.model_copy(update={"network": network})
        counts = self.privacy.counts.model_copy(update={"masks": None})
        privacy = self.privacy.model_copy(update={"counts": counts})
        alike = self.model_copy(update={"engine": engine, "privacy": privacy, "tracking": TrackingConfig()})
        plain = alike.model_dump(mode="json")
        plain.pop("about")
        plain["engine"].pop("workers")
        plain["engine"]["name"] = "in-process"
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_job(path: Path, changes: Sequence[str] = ()) -> Job:
    """Read and check a job file; see `training.jobs.job_file` for files that extend another.

    Args:
        path: the YAML file.
        changes: `key.path=value` overrides; a number or a stage's name picks from `stages`.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    return job_of(read_plain(path, changes), path)


def job_of(plain: dict[str, Any], path: Path) -> Job:
    """The job in plain data.

    Args:
        plain: what `read_plain` read.
        path: where, for messages.

    Raises:
        JobError: with one line for each thing that is wrong.
    """
    try:
        return Job.model_validate(plain)
    except ValidationError as error:
        raise JobError(f"{path}:\n" + "\n".join(describe(error, plain))) from error

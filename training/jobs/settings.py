"""The blocks of a job file except its stages, which any stage may read."""

from typing import Literal

from pydantic import Field, field_validator

from registry.bundle.pictures.rule import PictureRule
from training.algorithms.local_model import Device, Precision
from training.config import FrozenConfig
from training.data.settings import DataConfig
from training.data.subgroups import IntersectionConfig, each_column_once
from training.jobs.recipes import About
from training.models import ModelConfig
from training.privacy.settings import CompressionConfig, PrivacyConfig


class TrackingConfig(FrozenConfig):
    """Where the curves of a run are drawn, besides its log.

    Attributes:
        tensorboard: event files in the run's folder, under `tensorboard/`.
        mlflow: the store of `MLFLOW_TRACKING_URI`, or else `mlflow.db` next to the run's folder.
    """

    tensorboard: bool = False
    mlflow: bool = False


class NetworkConfig(FrozenConfig):
    """How long sites of a network are waited for.

    Attributes:
        heartbeat_timeout: seconds without a heartbeat after which a site is taken to be offline.
        deadline: seconds that a site may take for an answer.
        enough: whether a round ends as soon as it has `engine.min_clients` answers; others come too late.
        canary: whether every site tries two batches before the first round; of no effect on the weights.
        quorum: the share of the sites with which a run begins; those that are offline then are left out of
            it, and named. By default it waits for all.
    """

    heartbeat_timeout: float = Field(60, gt=0)
    deadline: float = Field(24 * 3600, gt=0)
    enough: bool = False
    canary: bool = True
    quorum: float = Field(1.0, gt=0, le=1)


class EngineConfig(FrozenConfig):
    """Where clients run.

    Attributes:
        name: `in-process`, on this machine; `nvflare`, at the hospitals of a federation.
        workers: processes; does not change the weights.
        threads_per_client: threads of each client's arithmetic; does change the last digits of the weights.
        min_clients: answers that a round needs; by default of all that were asked.
        update_limit: an update whose norm is over so many times the round's median is refused, see
            `training.rounds.server.validation`; null refuses none. Runs that meet no such update are as
            without it.
        network: how long sites are waited for, where clients run at sites of a network.
    """

    name: Literal["in-process", "nvflare"] = "in-process"
    workers: int = Field(1, ge=1)
    threads_per_client: int = Field(1, ge=1)
    min_clients: int | None = Field(None, ge=1)
    update_limit: float | None = Field(20.0, gt=1)
    device: Device = "auto"
    precision: Precision = "float32"
    network: NetworkConfig = NetworkConfig()


class EvaluationConfig(FrozenConfig):
    """How test metrics are computed.

    Attributes:
        intersections: columns of the manifests whose intersections with subgroups are judged, too.
        quorum: the share of hospitals asked that must answer in the final test, the check of an export and
            calibration. Missing hospitals are reported with the metrics.
    """

    intersections: tuple[IntersectionConfig, ...] = ()
    quorum: float = Field(1.0, gt=0, le=1)

    @field_validator("intersections")
    @classmethod
    def _each_column_once(cls, named: tuple[IntersectionConfig, ...]) -> tuple[IntersectionConfig, ...]:
        each_column_once(named)
        return named

    @property
    def traits(self) -> dict[str, tuple[str, ...]]:
        """The columns, and their values as far as they are known before any picture is."""
        return {each.column: each.values for each in self.intersections}


class JobSettings(FrozenConfig):
    """A job file without its stages: what any of them may go by.

    Attributes:
        version: of the job file's schema.
        name: of the run, and of the model unless the stage `register` names another.
        seed: every draw follows from it.
    """

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

    @property
    def picture(self) -> PictureRule:
        """How a picture becomes pixels, in training and in service alike.

        Resized as `data.interpolation` says, else as the encoders' pictures were.
        """
        how = self.data.interpolation or self.model.interpolation
        return self.data.picture.model_copy(update={"interpolation": how})

"""Where the curves of a run go, beside its own report; of no effect on the run."""

from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from training.config import FrozenConfig

SCHEMES = ("http", "https", "sqlite")


class MLflowConfig(FrozenConfig):
    """An MLflow tracking store.

    Attributes:
        uri: of a server (`https://…`) or a file (`sqlite:///…`); by default `mlflow.db` beside the run's
            folder.
        experiment: the name of the experiment that the run belongs to.
    """

    uri: str | None = None
    experiment: str = Field("dermfed", min_length=1)

    @field_validator("uri")
    @classmethod
    def _names_a_place_and_no_password(cls, uri: str | None) -> str | None:
        if uri is None:
            return None
        parts = urlsplit(uri)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"name a server or a file: {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
        if parts.username or parts.password:
            raise ValueError(
                "a job file is no place for a password; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, where the run is started"
            )
        return uri


class TrackingConfig(FrozenConfig):
    """Who is told of a run.

    Attributes:
        tensorboard: event files in the run's folder, under `tensorboard/`.
        mlflow: a store of MLflow; `true` for a file beside the run's folder.
    """

    tensorboard: bool = False
    mlflow: MLflowConfig | None = None

    @field_validator("mlflow", mode="before")
    @classmethod
    def _true_is_the_default_store(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {} if value else None
        return value

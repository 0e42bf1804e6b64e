"""The settings of the service, read from environment variables."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from registry.bundle.text import nearest
from registry.envelope import TRUSTED_KEYS
from registry.environment import OUTCOMES
from serving.machine import cores, memory

PREFIX: Final = "DERMFED_SERVE_"

DECODE_SHARE: Final = 0.4
"""The share of the memory that the service may use which decoders may take, where nothing else is set."""

DeviceKind = Literal["cuda", "tensorrt", "cpu"]
"""On what models may run."""

SHARED: Final = {"trusted_keys": TRUSTED_KEYS, "outcomes_url": OUTCOMES}
"""Settings with a variable that the registry's commands read too."""

# Kubernetes gives every pod such variables of a Service that is called `dermfed-serve`.
_OF_KUBERNETES: Final = re.compile(
    r"SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?|https?://\[[0-9A-Fa-f:.]+\](:\d+)?")


class ServeSettings(BaseModel):
    """Settings of one service; `DERMFED_SERVE_MAX_BYTES=30000000` sets `max_bytes`.

    Attributes:
        alias: whose releases are served.
        default_model: the model that answers where a request names none; by default the only one.
        max_bytes: the largest body that is read.
        max_pixels: the largest picture that is decoded; a bundle's own ceiling holds as well.
        threads: pictures that models are shown at once; one more is decoded at once.
        lone_threads: threads that share a picture while no other is worked on; more than one need a second
            copy of each model in memory. By default the cores, and four at most.
        max_batch: pictures that a model is shown at once, where so many wait; by default 32 on a GPU and 1 on
            the processor.
        queue: requests that one process admits at once; further ones are refused.
        deadline_seconds: how long a request may take, from its first byte to its answer.
        drain_seconds: how long a service refuses new requests after SIGTERM before it closes its port.
        poll_seconds: how often the registry is asked what is current.
        max_age_seconds: how long ago a release may have been confirmed as current when it answers.
        patience_seconds: how long a request waits for a release that is being loaded.
        requests_per_minute: how many requests a key may make that has no rate of its own; 0 for any number.
        burst: how many of them at once.
        open_per_minute: how many requests this machine may make while there are no keys; 0 for any number.
        records: the folder of the decision log; `none` to keep none.
        records_days: for how many days an entry of the decision log is kept.
        records_picture_hash: whether an entry holds the sha256 of the picture as it was sent.
        registry_id: the id of the registry, which `dermfed-serve` tells its workers; by default any.
        trusted_keys: files of public keys and certificates; where there are any, only releases are served
            of which each version has a valid signature of one of them. `DERMFED_TRUSTED_KEYS`, separated as
            in `PATH`.
        header_seconds: how long the head of a request may take to come in.
        decode_memory: bytes that all decoders of the service may take together.
        decode_seconds: seconds of one core that decoding a picture may take; by the clock four times as many.
        workers: processes of the service, which share `decode_memory`; `dermfed-serve --workers` sets it.
        providers: on what models run: `cuda` or `tensorrt` is a GPU, `cpu` the processor.
        device_bytes: how much of the GPU's memory one model may take; by default all there is.
        explain: whether `explain=true` is answered with maps of where the model looked; not validated.
        burned_in: whether DICOM files are answered that say that texts are burned into their pixels, with a
            warning; else they are refused.
        outcomes_url: the database where answers are kept, so that their outcomes can be given; by default
            none are. `DERMFED_OUTCOMES_URL`.
        prefix: the path under which a proxy has the service, such as `/derm`, for links and the description;
            the proxy may take it off or leave it.
        cors_origins: origins (`https://app.example`), separated by commas, whose pages may send requests
            from a browser; by default none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    alias: str = "production"
    default_model: str | None = None
    max_bytes: int = Field(20 * 2**20, ge=1)
    max_pixels: int = Field(50_000_000, ge=1)
    threads: int = Field(default_factory=cores, ge=1)
    lone_threads: int = Field(default_factory=lambda: min(cores(), 4), ge=1)
    max_batch: int | None = Field(None, ge=1)
    queue: int = Field(64, ge=1)
    deadline_seconds: float = Field(60.0, gt=0)
    drain_seconds: float = Field(1.0, ge=0, le=20)
    poll_seconds: float = Field(0.5, gt=0, le=1)
    max_age_seconds: float = Field(2.0, gt=0, le=2)
    patience_seconds: float = Field(60.0, gt=0)
    requests_per_minute: int = Field(1200, ge=0, le=1_000_000)
    burst: int = Field(100, ge=1, le=1_000_000)
    open_per_minute: int = Field(0, ge=0, le=1_000_000)
    records: Path | None = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("dermfed")) / "records"
    )
    records_days: int = Field(400, ge=1, le=36500)
    records_picture_hash: bool = False
    registry_id: str | None = Field(None, pattern="^[0-9a-f]{32}$")
    trusted_keys: tuple[Path, ...] = ()
    header_seconds: float = Field(10.0, gt=0, le=600)
    decode_memory: int = Field(default_factory=lambda: int(DECODE_SHARE * memory()), ge=64 * 2**20)
    decode_seconds: float = Field(5.0, ge=1, le=600)
    workers: int = Field(1, ge=1)
    providers: DeviceKind = "cpu"
    device_bytes: int | None = Field(None, ge=2**26)
    explain: bool = False
    burned_in: bool = False
    outcomes_url: str | None = Field(None, min_length=1, repr=False)
    prefix: str = Field("", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    cors_origins: tuple[str, ...] = ()

    @field_validator("trusted_keys", mode="before")
    @classmethod
    def _separated(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not all(files := [one.strip() for one in value.split(os.pathsep)]):
            raise ValueError(
                "a file has no name; name files, or unset the variable to serve without signatures"
            )
        return files

    @field_validator("prefix", mode="before")
    @classmethod
    def _without_end(cls, value: object) -> object:
        return value.rstrip("/") if isinstance(value, str) else value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _origins(cls, value: object) -> object:
        origins = [one.strip() for one in value.split(",")] if isinstance(value, str) else value
        for one in origins if isinstance(origins, list | tuple) else ():
            if not _ORIGIN.fullmatch(str(one)):
                raise ValueError("an origin is a scheme, a host and a port, such as https://app.example:8443")
        return origins

    @field_validator("records", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            raise ValueError("a folder has no name; name one, or say `none` to keep no records")
        return None if value == "none" else value


class SettingsError(Exception):
    """An environment variable names no setting, or has a value that its setting does not allow."""


def variable_of(name: str) -> str:
    """The name of a setting's environment variable."""
    return SHARED.get(name, PREFIX + name.upper())


def read_settings(environ: Mapping[str, str] = os.environ) -> ServeSettings:
    """Reads and validates the settings in the environment.

    Raises:
        SettingsError: naming the variable, its value and what is allowed.
    """
    variables = [variable_of(name) for name in ServeSettings.model_fields]
    for name in environ:
        of_kubernetes = _OF_KUBERNETES.fullmatch(name.removeprefix(PREFIX))
        if name.startswith(PREFIX) and name not in variables and not of_kubernetes:
            raise SettingsError(f"there is no setting {name}; {nearest(name, variables)}")
    given = {
        name: environ[variable]
        for name in ServeSettings.model_fields
        if (variable := variable_of(name)) in environ
    }
    try:
        return ServeSettings.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        variable = variable_of(str(problem["loc"][0]))
        raise SettingsError(
            f"{variable} is {problem['input']!r}: {problem['msg']}; set another value"
        ) from error

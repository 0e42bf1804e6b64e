"""What an operator of the service can set, all through the environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from registry.signing.envelope import TRUSTED_KEYS

PREFIX: Final = "DERMFED_SERVE_"

SHARED: Final = {"trusted_keys": TRUSTED_KEYS}
"""Settings with a variable that the registry's commands read too."""


class ServeSettings(BaseModel):
    """Settings of one service; `DERMFED_SERVE_MAX_BYTES=30000000` sets `max_bytes`.

    Attributes:
        alias: whose releases are served.
        default_model: the model that answers where a request names none; by default the only one.
        max_bytes: the largest body that is read.
        max_pixels: the largest picture that is decoded; a bundle's own ceiling holds as well.
        threads: pictures that are worked on at once.
        poll_seconds: how often the registry is asked what is current.
        max_age_seconds: how long ago a release may have been confirmed as current when it answers.
        patience_seconds: how long a request waits for a release that is being loaded.
        trusted_keys: files of public keys and certificates; where there are any, only releases are served
            of which each version has a valid signature of one of them. `DERMFED_TRUSTED_KEYS`, separated as
            in `PATH`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    alias: str = "production"
    default_model: str | None = None
    max_bytes: int = Field(20 * 2**20, ge=1)
    max_pixels: int = Field(50_000_000, ge=1)
    threads: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    poll_seconds: float = Field(0.5, gt=0, le=1)
    max_age_seconds: float = Field(2.0, gt=0, le=2)
    patience_seconds: float = Field(60.0, gt=0)
    trusted_keys: tuple[Path, ...] = ()

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


class SettingsError(Exception):
    """An environment variable holds what no setting can be."""


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return SHARED.get(name, PREFIX + name.upper())


def read_settings(environ: Mapping[str, str] = os.environ) -> ServeSettings:
    """The settings in the environment.

    Raises:
        SettingsError: naming the variable, its value and what is allowed.
    """
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

"""The base of everything that is written into `bundle.json`: frozen, and strict about unknown keys."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable pydantic model; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

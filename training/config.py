"""The base of every setting that comes from outside: frozen, and strict about unknown keys."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from registry.bundle.nearest import nearest


class FrozenConfig(BaseModel):
    """Settings that cannot change once read; an unknown key is an error that names the nearest valid one."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _name_the_nearest_key(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key in value:
                if key not in cls.model_fields:
                    raise PydanticCustomError(
                        "unknown_key",
                        "unknown key `{key}`; {hint}",
                        {"key": str(key), "hint": nearest(str(key), list(cls.model_fields))},
                    )
        return value

"""The base of all settings that come from outside: frozen, and strict about unknown keys."""

from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from registry.bundle.text import nearest
from training.config_errors import places_of


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


def describe(error: ValidationError, raw: Any = None) -> list[str]:
    """One line for each thing that is wrong: where, what, and what is allowed.

    Where a setting may be one of several things, lines are of the one that was meant; see `places_of`.

    Args:
        error: what pydantic found.
        raw: what it was given, as plain data.
    """
    problems = places_of(error, raw)
    inside = {problem.place[:-1] for problem in problems if len(problem.place) > 1}
    lines = []
    for problem in problems:
        where, value = problem.place, problem.value
        if problem.kind == "too_short" and any(place[: len(where)] == where for place in inside):
            continue  # it is short because of what is wrong inside it
        found = f"; found {value!r}" if isinstance(value, str | int | float) else ""
        lines.append(f"  {'.'.join(map(str, where)) or 'job'}: {problem.message}{found}")
    return lines

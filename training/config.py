"""Settings from outside: their base, what is wrong with them at the places a user knows, and files of them.

Where a setting may be one of several things, pydantic tells what is wrong with it as each of them, and puts
the names of our classes or of its own validators into the place. Here only what was meant is left: the
alternative whose shape the value has, and of its place only keys and numbers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from registry.bundle.text import nearest
from registry.strict_yaml import YamlError, load_yaml

Step = str | int

_TYPES = {"tuple": "list", "dictionary": "mapping"}  # as YAML calls them
_PLAIN = "Input should be "
_OF_CODE = re.compile(r" or (instance of \w+|object to extract fields from)")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        place: keys and numbers from the outermost mapping inwards.
        kind: pydantic's type of error.
        message: what is wrong, and what is allowed.
        value: what was found.
        labels: the alternatives that the place goes through: how many steps are before each, and its name.
    """

    place: tuple[Step, ...]
    kind: str
    message: str
    value: Any
    labels: tuple[tuple[int, str], ...] = ()


def _problem(found: Mapping[str, Any], raw: Any) -> Problem:
    """A problem at the keys and numbers of the raw data; any other step of its place is an alternative."""
    place: list[Step] = []
    labels: list[tuple[int, str]] = []
    at, last = raw, len(found["loc"]) - 1
    for number, step in enumerate(found["loc"]):
        is_missing = found["type"] == "missing" and number == last
        if not is_missing and not _is_inside(step, at):
            labels.append((len(place), str(step)))
            continue
        place.append(step)
        at = at[step] if _is_inside(step, at) else None
    message = found["msg"].removeprefix("Value error, ")
    for word, plain in _TYPES.items():
        message = message.replace(f"{_PLAIN}a valid {word}", f"{_PLAIN}a {plain}")
    message = _OF_CODE.sub("", message)
    return Problem(tuple(place), found["type"], message, found["input"], tuple(labels))


def _is_inside(step: Step, value: Any) -> bool:
    if isinstance(value, Mapping):
        return step in value
    return isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)


def _meant(problems: Sequence[Problem]) -> list[Problem]:
    """The problems of those alternatives that were meant, in their order."""
    done: list[Problem] = []
    by_union: dict[tuple[Step, ...], list[Problem]] = {}
    for problem in problems:
        if not problem.labels:
            done.append(problem)
            continue
        where = problem.place[: problem.labels[0][0]]
        if where not in by_union:
            done.append(problem)  # holds the place of all of them
        by_union.setdefault(where, []).append(problem)
    found: list[Problem] = []
    for problem in done:
        if problem.labels:
            found += _of_union(by_union[problem.place[: problem.labels[0][0]]])
        else:
            found.append(problem)
    return found


def _of_union(problems: Iterable[Problem]) -> list[Problem]:
    """What is left of the problems of all alternatives for one value."""
    alternatives: dict[str, list[Problem]] = {}
    for problem in problems:
        _, label = problem.labels[0]
        alternatives.setdefault(label, []).append(replace(problem, labels=problem.labels[1:]))
    depth = next(iter(problems)).labels[0][0]
    fits = {label: _fit(each, depth) for label, each in alternatives.items()}
    best = [_meant(alternatives[label]) for label, fit in fits.items() if fit == max(fits.values())]
    if len(best) > 1 and all(len(each) == 1 and len(each[0].place) == depth for each in best):
        return [_either([each[0] for each in best])]
    return min(best, key=len)


def _fit(problems: Sequence[Problem], depth: int) -> int:
    """How well a value fits an alternative: 0 is of another type, 1 of its type, 2 where parts are wrong."""
    return max(
        2
        if len(problem.place) > depth
        else 0
        if problem.kind.endswith("_type")
        or (problem.kind in ("literal_error", "enum") and not isinstance(problem.value, str))
        else 1
        for problem in problems
    )


def _either(problems: Sequence[Problem]) -> Problem:
    """One problem of a value that is none of several things."""
    messages = list(dict.fromkeys(problem.message for problem in problems))
    if all(message.startswith(_PLAIN) for message in messages):
        allowed = " or ".join(
            message.removeprefix(_PLAIN).partition(", unable to")[0] for message in messages
        )
        return replace(problems[0], message=_PLAIN + allowed)
    return replace(problems[0], message="; or ".join(messages))


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


def describe(error: ValidationError, raw: Any) -> list[str]:
    """One line for each thing that is wrong: where, what, and what is allowed.

    Where a setting may be one of several things, lines are of the one that was meant.

    Args:
        error: what pydantic found.
        raw: what it was given, as plain data.
    """
    problems = _meant([_problem(dict(each), raw) for each in error.errors(include_url=False)])
    inside = {problem.place[:-1] for problem in problems if len(problem.place) > 1}
    lines = []
    for problem in problems:
        where, value = problem.place, problem.value
        if problem.kind == "too_short" and any(place[: len(where)] == where for place in inside):
            continue  # it is short because of what is wrong inside it
        found = f"; found {value!r}" if isinstance(value, str | int | float) else ""
        lines.append(f"  {'.'.join(map(str, where)) or 'job'}: {problem.message}{found}")
    return lines


Config = TypeVar("Config", bound=FrozenConfig)


def read_config(path: Path, shape: type[Config], error: type[Exception], *, what: str, holds: str) -> Config:
    """The settings in a file.

    Args:
        path: the file.
        shape: the expected type.
        error: raised, with one line for each thing that is wrong.
        what: the kind of file, as in "a policy".
        holds: what such a file contains, for the message to a user who gave another one.
    """
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YamlError) as cause:
        raise error(f"cannot read {path}: {cause}; {what} is YAML") from cause
    if not isinstance(raw, dict):
        raise error(f"{path} holds no {what.removeprefix('a ')}: {holds}")
    try:
        return shape.model_validate(raw)
    except ValidationError as cause:
        raise error(f"{path}:\n" + "\n".join(describe(cause, raw))) from cause

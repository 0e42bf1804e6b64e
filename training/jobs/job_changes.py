"""Changes of a job by path: `stages.federate.rounds=5`, as `changes` of a job file and `--set` name them."""

from collections.abc import Sequence
from typing import Any

from registry.bundle.text import nearest
from registry.strict_yaml import YamlError, load_yaml
from training.errors import JobError
from training.jobs.stage_order import ORDER

EXAMPLE = "`changes: {stages.federate.rounds: 5}`"


def apply_change(raw: dict[str, Any], change: str) -> None:
    """Set one value of a job that is not checked yet, as `--set` gives it.

    Raises:
        JobError: when the change is not `key.path=value` or a step of the path does not exist.
    """
    path, equals, value = change.partition("=")
    if not equals or not path:
        raise JobError(f"--set {change}: write it as key.path=value, e.g. stages.federate.rounds=5")
    try:
        parsed = load_yaml(value)
    except YamlError as error:
        raise JobError(f"--set {change}: the value is not YAML: {error}") from error
    set_value(raw, path, parsed, f"--set {change}")


def set_value(raw: dict[str, Any], path: str, value: Any, asked: str) -> None:
    """Put `value` at `path`, in place of what is there.

    Args:
        raw: the job.
        path: keys with dots between; a list's number or a stage's name picks from a list.
        value: plain data; a whole stage that is not there is put where the order of stages has it.
        asked: who asks, before what a message says.

    Raises:
        JobError: when a step of the path does not exist.
    """
    *steps, last = path.split(".")
    place: Any = raw
    for step in steps:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[pick(place, step, asked)]
    if isinstance(place, dict):
        place[last] = value
    elif isinstance(place, list) and last == str(len(place)):
        place.append(value)
    elif isinstance(place, list) and is_new_stage(steps, place, last, value):
        place.insert(place_in_order(place, last), value)
    else:
        place[pick(place, last, asked)] = value


def is_new_stage(steps: Sequence[str], stages: Sequence[Any], name: str, value: Any) -> bool:
    """Whether a change at `stages.NAME` brings a whole stage of this name that the job has not yet."""
    there = [item.get("stage") for item in stages if isinstance(item, dict)]
    return list(steps) == ["stages"] and isinstance(value, dict) and value.get("stage") == name not in there


def place_in_order(stages: Sequence[Any], name: str) -> int:
    """Before which stage one of this name is put."""

    def rank(stage: Any) -> int:
        return ORDER.index(stage) if stage in ORDER else len(ORDER)

    later = (
        n for n, item in enumerate(stages) if isinstance(item, dict) and rank(item.get("stage")) > rank(name)
    )
    return next(later, len(stages))


def pick(place: Any, step: str, asked: str) -> int:
    """Where in a list a step of a path leads: a number, or the name of a stage."""
    if not isinstance(place, list):
        raise JobError(f"{asked}: there is no `{step}` there, only the value {place!r}")
    for number, item in enumerate(place):
        if step == str(number) or (isinstance(item, dict) and item.get("stage") == step):
            return number
    numbers = [str(number) for number in range(len(place))]
    names = [str(item["stage"]) for item in place if isinstance(item, dict) and "stage" in item]
    raise JobError(f"{asked}: there is no `{step}` there; {nearest(step, [*names, *numbers])}")

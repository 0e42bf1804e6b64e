"""A job file as plain data: what it extends, what it changes there, and what the command line changes.

A job file is a whole job, or it names another one and what is different:

    extends: fedperl.yaml
    name: fedperl-t3
    changes:
      stages.federate.exchange.peers: 3

The other file is read first, and may itself extend one. `name`, `seed` and `about` stand for those of the
other, then `changes` apply in their order, and `--set` after them by the same paths: keys with dots between,
where a number or a stage's name picks from a list, and the number after its last adds to it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from registry.bundle.nearest import nearest
from training.errors import JobError

OWN = ("name", "seed", "about")
BESIDE = (*OWN, "extends", "changes")
EXAMPLE = "`changes: {stages.federate.rounds: 5}`"


def read_plain(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The job in a file and those that it extends, not checked yet.

    Args:
        path: the YAML file.
        changes: `key.path=value`, applied last.

    Raises:
        JobError: when a file cannot be read, is no job or extends itself, or a path does not exist.
    """
    raw = read_extended(path, ())
    for change in changes:
        apply_change(raw, change)
    return raw


def read_extended(path: Path, before: tuple[Path, ...]) -> dict[str, Any]:
    """The job in `path`, which the last of `before` extends, and that the one before it."""
    raw = read_yaml(path, before)
    if "extends" not in raw:
        if "changes" in raw:
            raise JobError(
                f"{path} has `changes` and nothing that it changes; name the other file with `extends`, or "
                "write the values where they belong"
            )
        return raw
    refuse_others(path, raw)
    job = read_extended(other_file(path, raw["extends"], before), (*before, path))
    job |= {key: raw[key] for key in OWN if key in raw}
    for steps, value in changes_of(path, raw).items():
        set_value(job, steps, value, f"{path}, changes, {steps}")
    return job


def read_yaml(path: Path, before: Sequence[Path]) -> dict[str, Any]:
    """What one file holds."""
    found = f"{path}, which {before[-1]} extends," if before else f"{path}"
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        advice = (
            "a path after `extends` starts from the folder of the file that it stands in"
            if before
            else "list the built-in jobs with --recipes"
        )
        raise JobError(f"cannot read {found.rstrip(',')}: {error.strerror}; {advice}") from error
    except UnicodeDecodeError as error:
        raise JobError(f"{found} is not text in UTF-8 ({error}); a job is a YAML file") from error
    except yaml.YAMLError as error:
        raise JobError(f"{found} is not YAML: {error}") from error
    if not isinstance(raw, dict):
        raise JobError(f"{found} holds no job; see the shape with --schema")
    try:
        return {key: unshared(value) for key, value in raw.items()}
    except RecursionError as error:
        raise JobError(f"{found} holds a value that is inside itself; write it out") from error


def unshared(value: Any) -> Any:
    """The same data with a value that YAML has at two places (`*name`) there twice, to be changed at one."""
    if isinstance(value, dict):
        return {key: unshared(inner) for key, inner in value.items()}
    return [unshared(inner) for inner in value] if isinstance(value, list) else value


def refuse_others(path: Path, raw: Mapping[str, Any]) -> None:
    """Refuse what may not stand beside `extends`."""
    others = [f"`{key}`" for key in raw if key not in BESIDE]
    if others:
        raise JobError(
            f"{path} extends another job, where {', '.join(others)} may not stand: only "
            f"{', '.join(f'`{key}`' for key in BESIDE)} may; put it under `changes`, e.g. {EXAMPLE}"
        )


def other_file(path: Path, named: Any, before: tuple[Path, ...]) -> Path:
    """The file that `path` extends.

    Raises:
        JobError: when it is not named by a path, or is `path` or one of those that lead to it.
    """
    if not isinstance(named, str) or not named:
        raise JobError(
            f"{path}: `extends` is {named!r}; it names one other job file, e.g. `extends: job.yaml`"
        )
    other = path.parent / named
    chain = (*before, path)
    places = [file.resolve() for file in chain]
    if other.resolve() in places:
        circle = chain[places.index(other.resolve()) :]
        raise JobError(
            f"{' extends '.join(map(str, (*circle, circle[0])))}: a circle; let one of them be a whole job"
        )
    return other


def changes_of(path: Path, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a file changes, by path."""
    changes = raw.get("changes")
    if changes is None:
        return {}
    if not isinstance(changes, dict):
        raise JobError(f"{path}: `changes` is {changes!r}; write it as `key.path: value`, e.g. {EXAMPLE}")
    for key in changes:
        if not isinstance(key, str) or not all(key.split(".")):
            raise JobError(f"{path}, changes, {key}: write it as `key.path: value`, e.g. {EXAMPLE}")
    return changes


def apply_change(raw: dict[str, Any], change: str) -> None:
    """Set one value of a job that is not checked yet, as `--set` gives it.

    Raises:
        JobError: when the change is not `key.path=value` or a step of the path does not exist.
    """
    path, equals, value = change.partition("=")
    if not equals or not path:
        raise JobError(f"--set {change}: write it as key.path=value, e.g. stages.federate.rounds=5")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise JobError(f"--set {change}: the value is not YAML: {error}") from error
    set_value(raw, path, parsed, f"--set {change}")


def set_value(raw: dict[str, Any], path: str, value: Any, asked: str) -> None:
    """Put `value` at `path`, in place of what is there.

    Args:
        raw: the job.
        path: keys with dots between; a list's number or a stage's name picks from a list.
        value: plain data.
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
    else:
        place[pick(place, last, asked)] = value


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

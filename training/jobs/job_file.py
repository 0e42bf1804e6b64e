"""A job file as plain data: what it extends, what it changes there, and what the command line changes.

A job file is a whole job, or it names another one and what is different:

    extends: fedperl.yaml
    name: fedperl-t3
    changes:
      stages.federate.exchange.peers: 3

The other file is read first, and may itself extend one. `name`, `seed` and `about` stand for those of the
other, then `changes` apply in their order, and `--set` after them by the same paths: keys with dots between,
where a number or a stage's name picks from a list, and the number after its last adds to it. A stage that is
not there is put where the order of stages has it.

`extends: [SYSTEM, PICTURES]` names several, read from left to right: of two with one block (`data`, `model`,
`stages`, ...) the later one's stands, whole. A bare name that no file beside has is a built-in job's, or that
of a base: blocks that jobs share, marked by a line `base: what it is`, and no job by itself.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from registry.strict_yaml import YamlError, load_yaml
from training.errors import JobError
from training.jobs.job_changes import EXAMPLE, apply_change, set_value

BUILT_IN = Path(str(files("training"))) / "recipes"
OWN = ("name", "seed", "about")
BESIDE = (*OWN, "extends", "changes")


def read_plain(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The job in a file and those that it extends, not checked yet.

    Args:
        path: the YAML file.
        changes: `key.path=value`, applied last.

    Raises:
        JobError: when a file cannot be read, is no job, a base or extends itself, or a path does not exist.
    """
    raw = read_extended(path, ())
    for change in changes:
        apply_change(raw, change)
    return raw


def read_extended(path: Path, before: tuple[Path, ...]) -> dict[str, Any]:
    """The job in `path`, which the last of `before` extends, and that the one before it."""
    raw = read_yaml(path, before)
    if "base" in raw:
        refuse_base(path, raw.pop("base"), before)
    if "extends" not in raw:
        if "changes" in raw:
            raise JobError(
                f"{path} has `changes` and nothing that it changes; name the other file with `extends`, or "
                "write the values where they belong"
            )
        return raw
    refuse_others(path, raw)
    job = merged(path, other_files(path, raw["extends"], before), before)
    job |= {key: raw[key] for key in OWN if key in raw}
    for steps, value in changes_of(path, raw).items():
        set_value(job, steps, value, f"{path}, changes, {steps}")
    return job


def merged(path: Path, others: Sequence[Path], before: tuple[Path, ...]) -> dict[str, Any]:
    """The blocks of all jobs that `path` extends; of two with one block the later one's, whole.

    Raises:
        JobError: when later ones leave nothing of one.
    """
    jobs = [read_extended(other, (*before, path)) for other in others]
    for number, job in enumerate(jobs[:-1]):
        if not job.keys() - set().union(*jobs[number + 1 :]):
            after = " and ".join(map(str, others[number + 1 :]))
            blocks = ", ".join(f"`{key}`" for key in job)
            raise JobError(
                f"{path} extends {others[number]}, of which nothing is left: {after}, after it, has all that "
                f"it has ({blocks}), and a later block replaces an earlier one whole; leave one of them out, "
                "turn them round, or name a base or a file of your own that has some blocks alone"
            )
    return {key: value for job in jobs for key, value in job.items()}


def refuse_base(path: Path, told: Any, before: tuple[Path, ...]) -> None:
    """Refuse a base that does not say what it is, or is run as a job."""
    if not isinstance(told, str) or not told:
        raise JobError(f"{path}: `base` is {told!r}; it says in a line what the blocks of this file are")
    if not before:
        raise JobError(
            f"{path} is no job but a base that jobs share: {told} Run a job that extends it, e.g. with "
            f"`extends: [SYSTEM, {path.stem}]`; list the built-in jobs with --recipes"
        )


def read_yaml(path: Path, before: Sequence[Path]) -> dict[str, Any]:
    """What one file holds."""
    found = f"{path}, which {before[-1]} extends," if before else f"{path}"
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        advice = (
            f"a path after `extends` starts from the folder of the file that it stands in{alike(path)}"
            if before
            else "list the built-in jobs with --recipes"
        )
        raise JobError(f"cannot read {found.rstrip(',')}: {error.strerror}; {advice}") from error
    except UnicodeDecodeError as error:
        raise JobError(f"{found} is not text in UTF-8 ({error}); a job is a YAML file") from error
    except YamlError as error:
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


def other_files(path: Path, named: Any, before: tuple[Path, ...]) -> list[Path]:
    """The files that `path` extends, in their order.

    Raises:
        JobError: when they are not named by paths or names, or one is named twice, is not built in, or is
            `path` or one of those that lead to it.
    """
    names = named if isinstance(named, list) else [named]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise JobError(
            f"{path}: `extends` is {named!r}; it names one other job file, e.g. `extends: job.yaml`, "
            "or several, e.g. `extends: [fedmae, pictures.yaml]`"
        )
    others: list[Path] = []
    for name in names:
        other = other_file(path, name)
        refuse_circle(other, (*before, path))
        if other.resolve() in [file.resolve() for file in others]:
            raise JobError(f"{path}: `extends` names {other} twice; once is enough")
        others.append(other)
    return others


def other_file(path: Path, name: str) -> Path:
    """The file that `path` means by `name`: a path from its own folder, or a bare name of a built-in file."""
    other = path.parent / name
    if "/" in name or name.endswith((".yaml", ".yml")) or other.is_file():
        return other
    beside = path.parent / f"{name}.yaml"
    if beside.is_file() and beside.resolve() != path.resolve():
        return beside
    built_in = {file.stem: file for file in BUILT_IN.rglob("*.yaml")}
    if name not in built_in:
        raise JobError(
            f"{path} extends `{name}`, which is neither a file beside it nor built in"
            f"{closest(name, built_in)}; list the built-in jobs with --recipes, and name your own by its path"
        )
    return built_in[name]


def alike(path: Path) -> str:
    """A hint at a file of that folder, or a built-in one, with nearly this name."""
    beside = (file.name for file in path.parent.glob("*.y*ml"))
    return closest(path.name, [*beside, *(file.stem for file in BUILT_IN.rglob("*.yaml"))])


def closest(name: str, valid: Iterable[str]) -> str:
    """A hint at the nearest of many names; unlike `nearest` it does not list them all."""
    close = difflib.get_close_matches(name, list(valid), n=1)
    return f"; did you mean `{close[0]}`" if close else ""


def refuse_circle(other: Path, chain: Sequence[Path]) -> None:
    """Refuse a file that one of those that lead to it extends."""
    places = [file.resolve() for file in chain]
    if other.resolve() in places:
        circle = chain[places.index(other.resolve()) :]
        raise JobError(
            f"{' extends '.join(map(str, (*circle, circle[0])))}: a circle; let one of them be a whole job"
        )


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

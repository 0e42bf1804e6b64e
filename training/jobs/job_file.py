"""A job file as plain data: what it extends, what it changes there, and what the command line changes.

A job file is a whole job, or it names another one and what is different:

    extends: fedperl.yaml
    name: fedperl-t3
    changes:
      stages.federate.exchange.peers: 3

The other file is read first, and may itself extend one. `name`, `seed` and `about` replace those of the
other, then `changes` apply in their order, and `--set` after them by the same paths: keys with dots between,
where a number or a stage's name picks from a list, and the number after its last adds to it. A stage that is
not there is put where the order of stages has it.

`extends: [SYSTEM, PICTURES]` names several, read from left to right: of two with one block (`data`, `model`,
`stages`, ...) the later one's replaces the earlier one's. A bare name that no file in the same folder has is
a built-in job's, or that of a base: blocks that jobs share, marked by a line `base: what it is`, and no job
by itself.

A file may have variants, each with its own `about`, `extends` and `changes`:

    variants:
      t3: {changes: {stages.federate.exchange.peers: 3}}
      small: {extends: [small-vit, pictures.yaml]}
      t3@small: {changes: {stages.federate.rounds: 5}}

`fedperl.yaml@t3` names one and `fedperl.yaml@t3@small` two, wherever a job is named. A file applies those
that are named after its own `changes`, in the order in which it lists them, whatever order they are named in,
and `t3@small` where both are. It has the variants of the files that it extends, too; they apply theirs first.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from registry.bundle.text import nearest
from registry.strict_yaml import YamlError, load_yaml
from training.config import FrozenConfig, describe
from training.errors import JobError

ORDER = (
    "pretrain",
    "probe",
    "finetune",
    "federate",
    "personalize",
    "export",
    "calibrate",
    "register",
)


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
        raise JobError(f"--set {change}: the value cannot be read as YAML: {error}") from error
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


BUILT_IN = Path(str(files("training"))) / "recipes"
OWN = ("name", "seed", "about")
BESIDE = (*OWN, "extends", "changes", "variants")


class Variant(FrozenConfig):
    """What a variant of a job says and changes, as a file that extends another does."""

    about: dict[str, Any] = Field(default_factory=dict)
    extends: str | list[str] | None = None
    changes: dict[str, Any] | None = None


VARIANTS = TypeAdapter(dict[str, Variant])

load_once = lru_cache(maxsize=64)(load_yaml)
"""A YAML text, which most variants of a recipe share, as data that nobody may change."""


@dataclass(frozen=True)
class Extended:
    """A job as a file and those that it extends have it.

    Attributes:
        job: its blocks.
        variants: what each variant of all these files says `about` itself, those that apply first first.
    """

    job: dict[str, Any]
    variants: dict[str, dict[str, Any]]


def read_plain(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The job in a file and those that it extends, not checked yet.

    Args:
        path: the YAML file, with `@` and a variant's name for each variant, e.g. `job.yaml@small`.
        changes: `key.path=value`, applied last.

    Raises:
        JobError: when a file cannot be read, is no job, a base or extends itself, or a path or a variant does
            not exist.
    """
    raw = read_named(path, (), ()).job
    for change in changes:
        apply_change(raw, change)
    return raw


def read_variants(path: Path) -> tuple[list[str], list[str]]:
    """The variants of a job file itself, and those of the files that it extends, which it has too.

    Each is a name, or several with `@` between, where it applies if all of them are named. One that only
    adapts others says nothing about itself and is not listed.
    """
    own = read_yaml(path, ()).get("variants", {})
    listed = [key for key, about in read_named(path, (), ()).variants.items() if about]
    return [key for key in listed if key in own], [key for key in listed if key not in own]


def built_in_files() -> dict[str, Path]:
    """The files of built-in jobs and of bases, by their bare names."""
    return {file.stem: file for file in BUILT_IN.rglob("*.yaml")}


def find_job(named: Path) -> Path:
    """The job that a command line names: by its path, or a built-in one as `fedperl@t3`."""
    path, variants = split_variants(named)
    built_in = None if path.is_file() else built_in_files().get(str(path))
    return with_variants(built_in, variants) if built_in else named


def split_variants(named: Path) -> tuple[Path, list[str]]:
    """A job's file, and the variants that are named after it."""
    name, *variants = named.name.split("@")
    return (named, []) if named.is_file() or not name else (named.with_name(name), variants)


def with_variants(path: Path, variants: Sequence[str]) -> Path:
    """The job of a file with these variants, in the form that `split_variants` takes apart."""
    return path.with_name("@".join([path.name, *variants]))


def read_named(named: Path, passed: Collection[str], before: tuple[Path, ...]) -> Extended:
    """The job in a file, which the last of `before` extends, with its variants and those passed on to it.

    Variants that are named here are part of the job's name, and say what it is.
    """
    path, names = split_variants(named)
    chosen = {*passed, *names}
    found = read_file(path, chosen, before)
    job, variants = found.job, found.variants
    applied = [key for key in variants if parts(key) <= chosen and not parts(key).isdisjoint(names)]
    for name in names:
        if not any(name in parts(key) for key in applied):
            raise JobError(f"{path} has no variant `{name}`; {nearest(name, list(variants))}")
    if names and "name" in job:
        job["name"] = "-".join([str(job["name"]), *names])
    notes = [str(variants[key]["note"]) for key in applied if "note" in variants[key]]
    for about in [*(variants[key] for key in applied), {"note": " ".join(notes)} if notes else {}]:
        if about:
            job["about"] = {**job.get("about", {}), **about}
    return Extended(job, {key: about for key, about in variants.items() if parts(key).isdisjoint(names)})


def parts(key: str) -> set[str]:
    """The variants that have to be named for one of a file's variants to apply."""
    return set(key.split("@"))


def read_file(path: Path, chosen: Collection[str], before: tuple[Path, ...]) -> Extended:
    """The job in a file, with those variants that are chosen and that it or a file that it extends has."""
    raw = read_yaml(path, before)
    variants = raw.pop("variants", {})
    try:
        own = VARIANTS.validate_python(variants)
    except ValidationError as error:
        raise JobError(f"{path}, variants:\n" + "\n".join(describe(error, variants))) from error
    if "base" in raw:
        refuse_base(path, raw.pop("base"), before)
    if "extends" in raw:
        refuse_others(path, raw)
        found = merged(path, raw["extends"], chosen, before)
        found.job.update({key: raw[key] for key in OWN if key in raw})
        change(found.job, raw.get("changes"), f"{path}")
    elif "changes" in raw:
        raise JobError(
            f"{path} has `changes` and nothing that it changes; name the other file with `extends`, or "
            "write the values where they belong"
        )
    else:
        found = Extended(raw, {})
    applied = {key: variant for key, variant in own.items() if parts(key) <= set(chosen)}
    refuse_rivals(path, {key: variant.changes or {} for key, variant in applied.items()})
    for key, variant in applied.items():
        if variant.extends is not None:
            blocks = merged(path, variant.extends, (), before).job
            found.job.update({name: block for name, block in blocks.items() if name not in OWN})
        change(found.job, variant.changes, f"{path}, variants, {key}")
    for key, variant in own.items():
        found.variants[key] = found.variants.get(key, {}) | variant.about
    return found


def change(job: dict[str, Any], changes: Any, where: str) -> None:
    """Change a job by path, as a file or one of its variants says."""
    if not isinstance(changes, dict | None):
        raise JobError(f"{where}: `changes` is {changes!r}; write it as `key.path: value`, e.g. {EXAMPLE}")
    for key, value in (changes or {}).items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise JobError(f"{where}, changes, {key}: write it as `key.path: value`, e.g. {EXAMPLE}")
        set_value(job, key, value, f"{where}, changes, {key}")


def refuse_rivals(path: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse two variants that change one setting, unless a third one says what both come to."""
    for one, other in combinations(changes, 2):
        twice = changes[one].keys() & changes[other].keys()
        if twice and not any(parts(one) | parts(other) <= parts(key) for key in changes):
            raise JobError(f"{path}: `{one}` and `{other}` both change {min(twice)}; name one of them")


def merged(path: Path, named: Any, chosen: Collection[str], before: tuple[Path, ...]) -> Extended:
    """The blocks of all jobs that `path` extends; of two with one block the later one's, whole.

    Raises:
        JobError: when later ones leave nothing of one.
    """
    others = other_files(path, named, before)
    found = [read_named(other, chosen, (*before, path)) for other in others]
    for number, (other, extended) in enumerate(zip(others[:-1], found, strict=False)):
        if not extended.job.keys() - set().union(*(later.job for later in found[number + 1 :])):
            after = " and ".join(map(str, others[number + 1 :]))
            blocks = ", ".join(f"`{key}`" for key in extended.job)
            raise JobError(
                f"{path} extends {other}, of which nothing is left: {after}, after it, has all that "
                f"it has ({blocks}), and a later block replaces an earlier one whole; leave one of them out, "
                "turn them round, or name a base or a file of your own that has some blocks alone"
            )
    return Extended(
        {key: value for extended in found for key, value in extended.job.items()},
        {key: about for extended in found for key, about in extended.variants.items()},
    )


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
        raw = load_once(path.read_text(encoding="utf-8"))
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
        raise JobError(f"{found} cannot be read as YAML: {error}") from error
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
    """Refuse keys that may not be combined with `extends`."""
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
        refuse_circle(split_variants(other)[0], (*before, path))
        if other.resolve() in [file.resolve() for file in others]:
            raise JobError(f"{path}: `extends` names {other} twice; once is enough")
        others.append(other)
    return others


def other_file(path: Path, name: str) -> Path:
    """The job that `path` means by `name`: a path from its own folder, or a bare name of a built-in file."""
    other, variants = split_variants(path.parent / name)
    if "/" in name or other.suffix in {".yaml", ".yml"} or other.is_file():
        return path.parent / name
    beside = other.with_name(f"{other.name}.yaml")
    if beside.is_file() and beside.resolve() != path.resolve():
        return with_variants(beside, variants)
    if other.name not in (built_in := built_in_files()):
        raise JobError(
            f"{path} extends `{name}`, which is neither a file beside it nor built in"
            f"{closest(other.name, built_in)}; list the built-in jobs with --recipes, and name your own by "
            "its path"
        )
    return with_variants(built_in[other.name], variants)


def alike(path: Path) -> str:
    """A hint at a file of that folder, or a built-in one, with nearly this name."""
    beside = (file.name for file in path.parent.glob("*.y*ml"))
    return closest(path.name, [*beside, *built_in_files()])


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

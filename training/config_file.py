"""A file of settings in YAML, read and checked: a federation file, a hospital's policy."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from registry.strict_yaml import YamlError, load_yaml
from training.config import FrozenConfig, describe

Config = TypeVar("Config", bound=FrozenConfig)


def read_config(path: Path, shape: type[Config], error: type[Exception], *, what: str, holds: str) -> Config:
    """The settings in a file.

    Args:
        path: the file.
        shape: what they have to be.
        error: raised, with one line for each thing that is wrong.
        what: the kind of file, as in "a policy".
        holds: what stands in one, for whoever gave another file.
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

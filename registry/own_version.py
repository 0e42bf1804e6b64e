"""The version of dermfed itself, also where it runs from its sources: in a bento it is not installed."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def own_version() -> str:
    """The version of dermfed, as installed or in the sources' `pyproject.toml`; else `unknown`."""
    try:
        return version("dermfed")
    except PackageNotFoundError:
        pass
    try:
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return "unknown"

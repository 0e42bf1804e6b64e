"""Which dermfed this is, also where it runs from its sources alone: in a bento none is installed."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def own_version() -> str:
    """The version that is installed, or that the sources' `pyproject.toml` says; else `unknown`."""
    try:
        return version("dermfed")
    except PackageNotFoundError:
        pass
    try:
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return "unknown"

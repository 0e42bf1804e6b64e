"""Whether Python finds our packages, and nobody else's, under the names that they have.

Names as common as `training` or `serving` may be those of a folder in the working directory, of a place on
`PYTHONPATH`, or of another distribution, and Python takes the first on its path. Nothing is imported to find
out.
"""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

NAMES = ("clients", "personalization", "registry", "serving", "training")
MARK = b"# By this line dermfed/own_names.py knows that no other distribution wrote over this file."
WRONG = 2
_HOME = Path(__file__).resolve().parents[1]


def refuse_foreign(working_folder: Path | None = None) -> None:
    """End with exit code 2, saying why, where one of our names is not ours; a room may be missing.

    Args:
        working_folder: looked through first, as by processes that are started there with `python -m`.
    """
    if strangers := foreign(working_folder):
        told = "\n".join(_told(name, place) for name, place in strangers.items())
        print(f"dermfed does not start: {told}", file=sys.stderr)
        sys.exit(WRONG)


def foreign(working_folder: Path | None = None) -> dict[str, str]:
    """Where Python finds what is not ours under one of our names, by name."""
    before = sys.path
    if working_folder is not None:
        sys.path = [str(working_folder), *before]
    try:
        found = {name: _find(name) for name in NAMES if (_HOME / name).is_dir()}
        return {name: _place(spec) for name, spec in found.items() if spec and not _is_ours(spec)}
    finally:
        sys.path = before


def _find(name: str) -> ModuleSpec | None:
    # `importlib.util.find_spec` answers for what is loaded here, and not for what a new process would load.
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return None


def _is_ours(spec: ModuleSpec) -> bool:
    # By what is in it, not by where it is: a checkout where an installed dermfed is started is ours too.
    there = Path(_place(spec))
    return there.is_file() and MARK in there.read_bytes()


def _place(spec: ModuleSpec) -> str:
    """The file, or the folders of a package without `__init__.py`."""
    return spec.origin or ", ".join(spec.submodule_search_locations or ())


def _told(name: str, place: str) -> str:
    from importlib.metadata import packages_distributions  # slow, and needed here alone

    others = ", ".join(sorted({*packages_distributions().get(name, ())} - {"dermfed"}))
    return (
        f"Python finds {name!r} at {place}, which is not dermfed's own, {_HOME / name / '__init__.py'}. "
        "Start in another folder, rename or remove that one, or uninstall the distribution that it came with"
        f"{others and f' ({others})'} and reinstall dermfed"
    )

"""Limits for a child process that is given what strangers made: a clean environment, imports, resources.

Nothing but the standard library is imported here: a child that limits itself has to do so before all else.
"""

import os
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ENVIRONMENT: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""What a child has of an environment at least: libraries that start no threads of their own."""


def kept_variables() -> dict[str, str]:
    """What is kept of the environment: where some Pythons find their own libraries."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def import_roots(packages: Sequence[str]) -> list[str]:
    """The folders that these packages are in: all that a child started with `-I -S` has to look through.

    Raises:
        ModuleNotFoundError: one is not installed; `name` says which.
    """
    roots = []
    for name in packages:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
        origin = Path(spec.origin)
        roots.append(str(origin.parents[1] if origin.name == "__init__.py" else origin.parent))
    return list(dict.fromkeys(roots))


def limit(limits: Mapping[str, int]) -> None:
    """Limits this process for good: where memory runs out all the same, it ends and no other.

    Args:
        limits: by names as in `resource`, such as `RLIMIT_AS`; what is limited further already stays so.
    """
    with suppress(OSError), Path("/proc/self/oom_score_adj").open("w") as file:
        file.write("1000")
    for name, value in limits.items():
        kind = getattr(resource, name)
        _, most = resource.getrlimit(kind)
        # A second beyond the limit on time, so that the signal of that limit comes, which tells what it was.
        hard = value + (name == "RLIMIT_CPU")
        if most != resource.RLIM_INFINITY:
            hard = min(hard, most)
        # Some systems know no such limit; the others and the parent's clock hold.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (min(value, hard), hard))

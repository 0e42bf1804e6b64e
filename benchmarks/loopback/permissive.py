"""A hospital's policy that lets a job of a few drawn pictures run, for tests and measurements."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from clients.node.guards import PolicyGuard
from clients.node.policy import POLICY

PERMISSIVE: Mapping[str, Any] = {
    "privacy": {"min_count": 1, "masked_counts": False, "fewest": 2, "census_apart": False}
}


def permissive(folder: Path, **privacy: object) -> PolicyGuard:
    """The guard of a permissive policy that is written into a folder; `privacy` changes its keys."""
    path = folder / POLICY
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"privacy": {**PERMISSIVE["privacy"], **privacy}}))
    return PolicyGuard(path)

"""Retention of ended jobs' folders in a kit: the newest stay, for their logs, older ones are removed.

FLARE removes nothing: a hospital keeps a folder for every job, and so does a coordinator for one that was
killed with it, which FLARE calls RUNNING for ever. States of models are elsewhere, in `private/runs`.
"""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from clients.federation.kit import Kit

KEPT = 10  # folders of jobs, and jobs in the coordinator's store
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # what FLARE calls a job
UNDER_WAY = ("RUNNING", "DISPATCHED")


def prune(kit: Kit) -> None:
    """Remove folders of old and dead jobs from a kit, while FLARE's process does not run."""
    prune_folders(kit)
    stored = job_folders(kit.private / "jobs")
    dead = [folder for folder in stored if state(folder) in UNDER_WAY]
    remove(dead)
    remove([folder for folder in stored if folder not in dead][:-KEPT])


def prune_folders(kit: Kit) -> None:
    """Remove the folders of all jobs but the newest; the one that runs is among these."""
    remove(job_folders(kit.path)[:-KEPT])


def job_folders(place: Path) -> list[Path]:
    """The job folders in `place`, the oldest first."""
    if not place.is_dir():
        return []
    found = [path for path in place.iterdir() if ID.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def state(stored: Path) -> str:
    """FLARE's state of a stored job; empty where it cannot be read."""
    try:
        return str(json.loads((stored / "meta").read_text()).get("status", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def remove(folders: Sequence[Path]) -> None:
    """Remove folders with their content."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

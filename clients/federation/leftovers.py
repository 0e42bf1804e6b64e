"""What ended jobs leave in a kit: the newest folders stay, for their logs, and older ones go.

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


def tidy(kit: Kit) -> None:
    """Remove what no job of this kit needs any more, while FLARE's process does not run."""
    tidy_folders(kit)
    stored = job_folders(kit.private / "jobs")
    dead = [folder for folder in stored if state(folder) in UNDER_WAY]
    remove(dead)
    remove([folder for folder in stored if folder not in dead][:-KEPT])


def tidy_folders(kit: Kit) -> None:
    """Remove the folders of all jobs but the newest; the one that runs is among these."""
    remove(job_folders(kit.path)[:-KEPT])


def job_folders(place: Path) -> list[Path]:
    """The folders of jobs in a folder, the oldest first."""
    if not place.is_dir():
        return []
    found = [path for path in place.iterdir() if ID.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def state(stored: Path) -> str:
    """What FLARE calls the state of a job in its store; empty where it cannot be read."""
    try:
        return str(json.loads((stored / "meta").read_text()).get("status", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def remove(folders: Sequence[Path]) -> None:
    """Remove folders, with all that is in them."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

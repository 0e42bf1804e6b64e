"""A job as FLARE's job folder: two config files that name what each side installed. No code is in it."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clients.federation.site_policy import CONTROLLER, COORDINATOR, EXECUTOR, HOSPITAL, SYNC_SECONDS
from training.config import describe
from training.engines.roster import installed
from training.errors import JobError, public
from training.files import write_text
from training.jobs.job import Job

APP = "app"
SHOWN = 3  # things that a job says, and this version does not understand, that are named


def pack(job: Job) -> str:
    """A job as one base64 word, since FLARE reads a meaning into settings of its own names."""
    return base64.b64encode(json.dumps(job.resolved()).encode()).decode()


def unpack(job: str) -> Job:
    """A job as `pack` put it into a FLARE job.

    Raises:
        JobError: it is none of this version's. Its text is of the job, which the other side sent, and of
            what this version would take.
    """
    content = json.loads(base64.b64decode(job))
    try:
        return Job.model_validate(content)
    except ValidationError as error:
        wrong = [line.strip() for line in describe(error, content)]
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise public(
            JobError(
                f"its dermfed {installed().get('dermfed', 'none')} does not understand the job; install the "
                f"version of whoever sent it. {'; '.join(wrong[:SHOWN])}{more}"
            )
        ) from error


def write_job(
    folder: Path,
    job: Job,
    run: str,
    hospitals: Sequence[str],
    without: Sequence[str] = (),
) -> Path:
    """Write a job as a FLARE job folder; returns its path.

    Args:
        folder: where.
        job: the job.
        run: under which name both sides keep what they must, the same whenever the run is taken up again.
        hospitals: who gets the job; no other hospital ever does.
        without: those that are dismissed.
    """
    path = folder / job.name
    arguments = {"job": pack(job), "run": run}
    write(
        path / "meta.json",
        {
            "name": job.name,
            "resource_spec": {},
            "min_clients": 1,
            "deploy_map": {APP: ["server", *hospitals]},
        },
    )
    write(
        path / APP / "config" / "config_fed_server.json",
        {
            "format_version": 2,
            "workflows": [
                {
                    "id": "controller",
                    "path": CONTROLLER,
                    "args": {"server_obj_id": "coordinator", "sync_task_timeout": SYNC_SECONDS},
                }
            ],
            "components": [
                {
                    "id": "coordinator",
                    "path": COORDINATOR,
                    "args": {**arguments, "without": ",".join(without)},
                }
            ],
        },
    )
    write(
        path / APP / "config" / "config_fed_client.json",
        {
            "format_version": 2,
            "executors": [
                {
                    "tasks": ["*"],
                    "executor": {"id": "executor", "path": EXECUTOR, "args": {"client_obj_id": "hospital"}},
                }
            ],
            "components": [{"id": "hospital", "path": HOSPITAL, "args": arguments}],
        },
    )
    return path


def write(path: Path, content: Any) -> None:
    """Write one JSON config file."""
    write_text(path, json.dumps(content, indent=2) + "\n")

"""A job over a federation, for `training/run.py`: submitted with the admin's kit, followed, and fetched."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clients.federation.admin_client import AdminClient
from clients.federation.kit import open_kit
from clients.federation.supervise import Supervisor
from training.jobs.job import Job


def run_federated(
    job: Job,
    kit: Path,
    out: Path,
    *,
    resume: bool,
    say: Callable[[str], None],
    without: Sequence[str] = (),
    show: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Run a job at a federation's hospitals, `without` some; returns how it ended, with everything in `out`.

    Raises:
        FederationError: the kit is none, is refused, or FLARE will not run the job.
        CheckpointError: `out` holds something else.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # FLARE prints every lost packet
    opened = open_kit(kit, "admin")
    admin = AdminClient(opened)
    try:
        supervisor = Supervisor(opened, admin, job, out, say, show)
        return supervisor.run(resume=resume, without=without)
    finally:
        admin.close()

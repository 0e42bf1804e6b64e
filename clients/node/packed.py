"""Reading the job that came with FLARE's: of another version it may say what this one does not know."""

import base64
import json
from collections.abc import Mapping

from pydantic import ValidationError

from training.config import describe
from training.engines.nvflare.handshake import installed
from training.errors import JobError, tell
from training.jobs.job import Job

SHOWN = 3  # things that a job says and are named


def read_packed(job: str) -> Job:
    """A job as `clients.federation.job_folder.pack` put it into a FLARE job.

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
        raise tell(
            JobError(
                f"its dermfed {installed().get('dermfed', 'none')} does not understand the job; install the "
                f"version of whoever sent it. {'; '.join(wrong[:SHOWN])}{more}"
            )
        ) from error


def refuse_later(settings: Mapping[str, object]) -> None:
    """Refuse a FLARE job whose files have settings that a version to come has added.

    Raises:
        JobError: naming them.
    """
    if settings:
        raise tell(
            JobError(
                f"its dermfed {installed().get('dermfed', 'none')} does not know what {', '.join(settings)} "
                "of the FLARE job is; install the version of whoever sent it"
            )
        )

"""From a request to its line: what came of it is written when it is known, whatever is in the way."""

import hashlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request

from serving.metrics import Metrics
from serving.problems import Problem, TooManyRequests
from serving.records.day_files import DayFiles
from serving.records.record import Diagnosed, Refused
from serving.schemas import Diagnosis
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")


class Record:
    """What comes of one request."""

    def __init__(self, records: "Records", request: Request) -> None:
        self._records = records
        self._request = request
        self._told: dict[str, str] = {}
        self._written = False

    async def picture(self, content: bytes) -> None:
        """Takes the picture's hash, where records are to hold it."""
        if self._records.hashes_pictures:
            digest = await anyio.to_thread.run_sync(lambda: hashlib.sha256(content).hexdigest())
            self._told = {"picture": f"sha256:{digest}"}

    def diagnosed(self, diagnosis: Diagnosis) -> None:
        """Writes down a diagnosis that is about to be sent."""
        self._written = True
        model = diagnosis.model
        self._records.write(
            Diagnosed(
                time=datetime.now(UTC),
                request=diagnosis.id,
                key=self._request.state.key,
                status=200,
                model=model.name,
                version=model.version,
                digest=model.digest,
                subgroup=model.subgroup,
                route=model.route,
                decision=diagnosis.decision,
                confidence=diagnosis.confidence.value,
                milliseconds=round((time.monotonic() - self._request.state.began) * 1000, 1),
                **self._told,
            )
        )

    def refused(self, status: int) -> None:
        """Writes down that there was no diagnosis, if it is known who asked.

        Anybody could fill the disk with requests without a good key.
        """
        state = self._request.state
        if self._written or not hasattr(state, "key"):
            return
        self._records.write(
            Refused(time=datetime.now(UTC), request=state.request_id, key=state.key, status=status)
        )


class Records:
    """The records of one service."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._trouble = ""
        self.hashes_pictures = settings.records_picture_hash and settings.records is not None
        self._metrics = metrics
        self._files = None if settings.records is None else DayFiles(settings.records, settings.records_days)

    @property
    def troubles(self) -> list[str]:
        """Why the last record could not be written, if it could not."""
        return [self._trouble] if self._trouble else []

    def start(self) -> None:
        """Removes what is too old."""
        if self._files is not None:
            self._files.remove_old(datetime.now(UTC).date())

    @contextmanager
    def of(self, request: Request) -> Iterator[Record]:
        """The record of a request; one that fails inside is written down with its status."""
        record = Record(self, request)
        try:
            yield record
        except TooManyRequests:
            raise  # counted, and no more: whoever asks too often could fill the disk with them
        except Problem as problem:
            record.refused(problem.status)
            raise
        except HTTPException as error:
            record.refused(error.status_code)
            raise
        except Exception:
            record.refused(500)
            raise

    def write(self, record: Refused) -> None:
        """Writes a record; where that cannot be, it is counted and told, and the request goes on."""
        if self._files is None:
            return
        try:
            self._files.append(record.line, record.time.date())
        except OSError as error:
            self._metrics.record_lost()
            self._say(error.strerror or str(error))
        else:
            self._trouble = ""

    def close(self) -> None:
        """Lets go of the file."""
        if self._files is not None:
            self._files.close()

    def _say(self, why: str) -> None:
        """Tells the log once, and `/readyz` until a record could be written."""
        assert self._files is not None
        trouble = (
            f"records of diagnoses cannot be written to {self._files.folder} ({why}); make room, let the "
            "service write there, or set DERMFED_SERVE_RECORDS to another folder"
        )
        if trouble != self._trouble:
            log.error("%s", trouble)
        self._trouble = trouble

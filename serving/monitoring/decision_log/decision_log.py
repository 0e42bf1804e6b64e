"""Writes the entry of each request when its outcome is known; a failure to write never fails the request."""

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request

from serving.metrics.metrics import Metrics
from serving.monitoring.decision_log.day_files import DayFiles
from serving.monitoring.decision_log.entry import DiagnosedEntry, RefusedEntry
from serving.protocol.problems import ProblemResponse, TooManyRequests
from serving.protocol.schemas import Diagnosis
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")


class PendingEntry:
    """The entry of a request in progress, written once its outcome is known."""

    def __init__(self, decision_log: "DecisionLog", request: Request) -> None:
        self._log = decision_log
        self._request = request
        self._picture_digests: dict[str, Any] = {}
        self._written = False

    async def hash_pictures(self, contents: Sequence[bytes]) -> None:
        """Computes the pictures' sha256, where entries are to hold them."""
        if self._log.hashes_pictures:
            digests = await anyio.to_thread.run_sync(
                lambda: [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents]
            )
            one = len(digests) == 1
            self._picture_digests = {"picture": digests[0]} if one else {"pictures": digests}

    def diagnosed(self, diagnosis: Diagnosis) -> None:
        """Writes the entry of a diagnosis that is about to be sent."""
        self._written = True
        model = diagnosis.model
        self._log.write(
            DiagnosedEntry(
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
                **self._picture_digests,
            )
        )

    def refused(self, status: int) -> None:
        """Writes the entry of a request that got no diagnosis, if its caller is known.

        Anybody could fill the disk with requests without a good key.
        """
        state = self._request.state
        if self._written or not hasattr(state, "key"):
            return
        self._log.write(
            RefusedEntry(time=datetime.now(UTC), request=state.request_id, key=state.key, status=status)
        )


class DecisionLog:
    """The decision log of one service; writes nothing where the settings name no folder."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._health_issue = ""
        self.hashes_pictures = settings.records_picture_hash and settings.records is not None
        self._metrics = metrics
        self._files = None if settings.records is None else DayFiles(settings.records, settings.records_days)

    @property
    def health_issues(self) -> list[str]:
        """Why the last entry could not be written, if it could not."""
        return [self._health_issue] if self._health_issue else []

    def start(self) -> None:
        """Removes files that are older than they are kept."""
        if self._files is not None:
            self._files.remove_old(datetime.now(UTC).date())

    @contextmanager
    def entry_of(self, request: Request) -> Iterator[PendingEntry]:
        """The entry of a request; an exception within the block is logged with its HTTP status."""
        entry = PendingEntry(self, request)
        try:
            yield entry
        except TooManyRequests:
            raise  # counted, and no more: whoever asks too often could fill the disk with them
        except ProblemResponse as problem:
            entry.refused(problem.status)
            raise
        except HTTPException as error:
            entry.refused(error.status_code)
            raise
        except Exception:
            entry.refused(500)
            raise

    def write(self, entry: RefusedEntry) -> None:
        """Writes an entry; a failure is counted and reported, and the request goes on."""
        if self._files is None:
            return
        try:
            self._files.append(entry.line, entry.time.date())
        except OSError as error:
            self._metrics.record_lost()
            self._report_failure(error.strerror or str(error))
        else:
            self._health_issue = ""

    def close(self) -> None:
        """Closes the file."""
        if self._files is not None:
            self._files.close()

    def _report_failure(self, why: str) -> None:
        """Reports a failure: to the service's log once, and as a health issue until an entry is written."""
        assert self._files is not None
        health_issue = (
            f"records of diagnoses cannot be written to {self._files.folder} ({why}); make room, let the "
            "service write there, or set DERMFED_SERVE_RECORDS to another folder"
        )
        if health_issue != self._health_issue:
            log.error("%s", health_issue)
        self._health_issue = health_issue

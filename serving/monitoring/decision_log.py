"""The decision log: one line for every diagnosis, kept as long as the law asks for logs; never a picture.

Not the registry's audit log, which says who released which model. `docs/service.md` describes the format.

A failure to write never fails the request. One thread writes, and a request waits for its line to be with the
operating system. A disk that takes longer than `PATIENCE` keeps no request: the answer goes out, the line
stays in the thread's queue, and `/readyz` reports it. What finds that queue full is lost, and counted.
"""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from queue import SimpleQueue
from typing import Any, Final, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from registry.bundle.decision import Level
from serving.metrics import Metrics
from serving.monitoring.day_files import DayFiles
from serving.protocol.parameters import Route
from serving.protocol.problems import ProblemResponse, TooManyRequests
from serving.protocol.schemas import Diagnosis
from serving.settings import ServeSettings


class RefusedEntry(BaseModel):
    """The entry of a request that got no diagnosis: when, by which key, and with which status.

    Attributes:
        time: when it was answered, in UTC.
        request: its id, as in the answer and in the log.
        key: the id of the API key; null where the service has none.
        status: of the answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime
    request: str
    key: str | None
    status: int

    @property
    def line(self) -> bytes:
        """The entry as a line of JSON, its newline too."""
        return self.model_dump_json(exclude_unset=True).encode() + b"\n"


class DiagnosedEntry(RefusedEntry):
    """The entry of a diagnosis: which version gave it, why that one, and what it decided.

    Attributes:
        model: the model's name.
        version: the number of the version that answered.
        digest: of its bundle.
        subgroup: whom the version is for.
        route: why it was this one.
        triage: urgent, routine or ruled-out; null where there is none.
        decision: report, refer or retake.
        confidence: the highest probability.
        milliseconds: from the first byte of the request to this line.
        picture: the sha256 of the picture as it was sent; there only where it was asked for.
        pictures: those of all pictures, where more than one was sent.
    """

    model: str
    version: int
    digest: str
    subgroup: str
    route: Route
    triage: Level | None
    decision: Literal["report", "refer", "retake"]
    confidence: float
    milliseconds: float = Field(ge=0)
    picture: str | None = None
    pictures: tuple[str, ...] | None = None


log = logging.getLogger("dermfed.serve")

PATIENCE: Final = 1.0
"""How long an answer waits for its entry to be written; seconds."""

WAITING: Final = 10_000
"""How many entries may wait for a disk that does not take them."""

_CLOSING_SECONDS: Final = 5.0
"""How long closing waits for the disk."""


_Line = tuple[bytes, date, Future[None]]


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

    async def diagnosed(self, diagnosis: Diagnosis) -> None:
        """Writes the entry of a diagnosis that is about to be sent."""
        self._written = True
        model = diagnosis.model
        await self._log.write(
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
                triage=diagnosis.triage,
                decision=diagnosis.decision,
                confidence=diagnosis.findings[0].probability,
                milliseconds=round((time.monotonic() - self._request.state.began) * 1000, 1),
                **self._picture_digests,
            )
        )

    async def refused(self, status: int) -> None:
        """Writes the entry of a request that got no diagnosis, if its caller is known.

        Anybody could fill the disk with requests without a good key.
        """
        state = self._request.state
        if self._written or not hasattr(state, "key"):
            return
        await self._log.write(
            RefusedEntry(time=datetime.now(UTC), request=state.request_id, key=state.key, status=status)
        )


class DecisionLog:
    """The decision log of one service; writes nothing where the settings name no folder."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._health_issue = ""
        self.hashes_pictures = settings.records_picture_hash and settings.records is not None
        self._metrics = metrics
        self._files: DayFiles | None = None
        self._queue: SimpleQueue[_Line | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._began: float | None = None  # when the line that is being written was begun; monotonic
        if settings.records is not None:
            self._files = DayFiles(settings.records, settings.records_days)

    @property
    def health_issues(self) -> list[str]:
        """Why entries cannot be written; empty where they can be."""
        found = [self._health_issue]
        if self._files is not None and (seconds := self._stuck_for()):
            found.append(
                f"{self._queue.qsize() + 1} records of diagnoses wait for {self._files.folder}, which has "
                f"not taken one for {seconds:.0f} s; look at its disk, or set DERMFED_SERVE_RECORDS to "
                "another folder"
            )
        return [one for one in found if one]

    @asynccontextmanager
    async def entry_of(self, request: Request) -> AsyncIterator[PendingEntry]:
        """The entry of a request; an exception within the block is logged with its HTTP status."""
        entry = PendingEntry(self, request)
        try:
            yield entry
        except TooManyRequests:
            raise  # counted, and no more: whoever asks too often could fill the disk with them
        except Exception as error:
            status = error.status if isinstance(error, ProblemResponse) else 500
            await entry.refused(error.status_code if isinstance(error, HTTPException) else status)
            raise

    async def write(self, entry: RefusedEntry) -> None:
        """Writes an entry; a failure is counted and reported, and the request goes on."""
        if self._files is None:
            return
        if (waiting := self._queue.qsize()) >= WAITING:
            self._metrics.records_lost.inc()
            self._report_failure(f"{waiting} of them wait already")
            return
        written: Future[None] = Future()
        self._queue.put((entry.line, entry.time.date(), written))
        if self._writer is None:
            self._writer = threading.Thread(
                target=self._write, args=[self._files], name="records", daemon=True
            )
            self._writer.start()
        if not self._stuck_for():  # else it is written when the disk takes it, and `health_issues` says so
            await asyncio.wait([asyncio.wrap_future(written)], timeout=PATIENCE)

    def close(self) -> None:
        """Writes what waits, and closes the file; what a disk does not take in time is lost."""
        if self._files is None:
            return
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join(_CLOSING_SECONDS)
            if self._writer.is_alive():
                lost = self._queue.qsize()  # with the one that is being written, and without the end
                log.error("%d records of diagnoses were lost: %s did not take them", lost, self._files.folder)
                self._metrics.records_lost.inc(lost)
                return
        self._files.close()

    def _stuck_for(self) -> float:
        """How long a line has been written that takes longer than `PATIENCE`; 0 where none does."""
        began = self._began
        took = 0.0 if began is None else time.monotonic() - began
        return took if took > PATIENCE else 0.0

    def _write(self, files: DayFiles) -> None:
        while (taken := self._queue.get()) is not None:
            line, day, written = taken
            self._began = time.monotonic()
            self._append(files, line, day)
            self._began = None
            written.set_result(None)

    def _append(self, files: DayFiles, line: bytes, day: date) -> None:
        try:
            files.append(line, day)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread has to live
            self._metrics.records_lost.inc()
            self._report_failure(getattr(error, "strerror", None) or repr(error))
        else:
            self._health_issue = ""

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

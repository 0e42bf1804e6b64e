"""The decision log: one line for every diagnosis, kept as long as the law asks for logs; never a picture.

Not the registry's audit log, which says who released which model. `docs/service.md` describes the format.

A failure to write never fails the request. One thread writes, and a request waits for its line to be with the
operating system. A disk that takes longer than `PATIENCE` keeps no request: the answer goes out, the line
stays in the thread's queue, and `/readyz` reports it. What finds that queue full is lost, and counted.

**Files.** One a day (UTC), `diagnoses-2026-01-31.jsonl`, to which all workers of a service append lines.

A line is written in one piece to the file's end, whole or not at all: what a full disk took half of is cut
off again. It is handed to the operating system before the answer is sent, so a worker that is killed loses
none; a power cut may take the last seconds. Keep the folder on a local disk: what writes waits for it.

Files that are past their retention are removed when the first line of a day is written, and only where there
are records of `LATER_DAYS` days on which they were past it already. A clock can be wrong: one that is 500
days ahead for a second must not cost a year of records.
"""

import asyncio
import errno
import fcntl
import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from registry.bundle.decision import Level
from serving.metrics import Metrics
from serving.protocol.parameters import Route
from serving.protocol.problems import ProblemResponse, TooManyRequests
from serving.protocol.schemas import Diagnosis
from serving.settings import ServeSettings

log = logging.getLogger("dermfed.serve")

LATER_DAYS: Final = 3
"""Of how many days past its retention there have to be records before a file is removed."""

NAME: Final = "diagnoses-{}.jsonl"
_NAME: Final = re.compile(r"diagnoses-(\d{4}-\d\d-\d\d)\.jsonl")


def path_of(folder: Path, day: date) -> Path:
    """The file of a day."""
    return folder / NAME.format(day.isoformat())


def days_in(folder: Path) -> list[date]:
    """The days of which a folder holds a file; none where there is no such folder."""
    try:
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    except OSError:
        return []  # not there yet, or to be reported when a line is written
    days = []
    for named in found:
        with suppress(ValueError):  # no day of the calendar, and no file of ours
            days += [date.fromisoformat(named[1])] if named else []
    return days


class DayFiles:
    """Appends lines to the file of their day, and removes files that are past their retention."""

    def __init__(self, folder: Path, retention_days: int) -> None:
        """Makes and removes nothing before the first line.

        Args:
            folder: where the files are.
            retention_days: for how many days after its own each is kept.
        """
        self.folder = folder
        self._retention = timedelta(days=retention_days)
        self._day: date | None = None
        self._file: int | None = None
        self._lock = threading.Lock()  # a lock on a file is of the whole process

    def append(self, line: bytes, day: date) -> None:
        """Appends a line to the file of a day.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            if day != self._day:
                self._close()
            if self._file is None or os.fstat(self._file).st_nlink == 0:  # somebody has removed it
                self._close()
                self._file, self._day = self._open(day), day
            _write(self._file, line)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._close()

    def _open(self, day: date) -> int:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        opened = os.open(path_of(self.folder, day), flags, 0o600)
        self._remove_old(day)
        return opened

    def _remove_old(self, today: date) -> None:
        days = days_in(self.folder)
        newest = sorted(day for day in days if day <= today)[-LATER_DAYS:]
        for day in days:
            if len(newest) == LATER_DAYS and day + self._retention < newest[0]:
                path = path_of(self.folder, day)
                try:
                    path.unlink()
                    log.info(
                        "the records %s were kept for %d days and are removed", path, self._retention.days
                    )
                except FileNotFoundError:
                    pass  # another worker was first
                except OSError as error:
                    log.warning("the old records %s cannot be removed: %s", path, error.strerror)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = self._day = None


def _write(file: int, line: bytes) -> None:
    """Appends a line as a whole, below whatever a worker that was killed while writing has left."""
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(file, line) < len(line):
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)


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

"""The outgoing journal: a line for each message that leaves a hospital, written before it does.

`journal/outgoing.jsonl` in the kit, JSON lines that are only ever appended, each with the digest of the
line before it, so that one that was changed or taken out is missed. A full file is put aside under the
time of its last line and a new one begun. In a line are the message's own names and sizes, and never what it
says: no value of a tensor, no number of a count, no text of an error, no file and no patient.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from clients.federation.errors import JournalError
from clients.federation.kit import PRIVATE, PRIVATE_FILE
from training.config import FrozenConfig

FOLDER, FILE, LOCK = "journal", "outgoing.jsonl", "lock"
FULL = 10_000_000  # bytes of a file after which the next one begins
KEPT = 100  # files that were put aside; the oldest goes
FIRST = "0" * 64  # stands before the first line
LONGEST = 200  # characters of a name in a line


class Entry(FrozenConfig):
    """A line of the journal: one message that left.

    Attributes:
        at: when, UTC.
        run, job: which run, and the job's digest.
        kind: `handshake`, `properties`, `roster`, `answer`, `chunk`, `received`, `heartbeats` or `refusal`.
        stage, round, ask, track: of the request that it answers; empty where it answers none.
        holds: what is in it: `numbers`, `tensors`, `a masked sum`, `shares of masks`, `an error's code` …
        tensors: how many tensors.
        messages: how many messages the line represents: more than one for heartbeats only.
        bytes: of all of them, headers included.
        sha256: of the message; empty for heartbeats.
        before: the digest of the line before.
    """

    at: str
    run: str
    job: str
    kind: str
    stage: str = ""
    round: int | None = None
    ask: str = ""
    track: str = ""
    holds: str = ""
    tensors: int = 0
    messages: int = 1
    bytes: int
    sha256: str = ""
    before: str = FIRST


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class Journal:
    """Appends to the journal of a kit, from whichever of its processes.

    Args:
        folder: of the journal; made where it is not there.
        full: bytes after which a new file begins.
        kept: how many older files stay next to it.
        clock: the time in UTC.
    """

    def __init__(
        self, folder: Path, *, full: int = FULL, kept: int = KEPT, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._full = full
        self._kept = kept
        self._clock = clock

    def add(self, *, run: str, job: str, kind: str, size: int, **about: Any) -> None:
        """Enter one message, on disk before it leaves.

        Raises:
            JournalError: it cannot be entered; so it may not leave.
        """
        names = {key: value[:LONGEST] if isinstance(value, str) else value for key, value in about.items()}
        try:
            with self._locked() as file:
                entry = Entry(
                    at=f"{self._clock():%Y-%m-%dT%H:%M:%SZ}",
                    run=run,
                    job=job,
                    kind=kind,
                    bytes=size,
                    before=last_digest(file),
                    **names,
                )
                file.write(entry.model_dump_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
                if file.tell() >= self._full:
                    self._turn_over()
        except OSError as error:
            raise JournalError(
                f"the journal {self._path} cannot be written: {error}; nothing leaves this node until it can"
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with open((self._folder / LOCK), "wb", opener=private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with open(self._path, "a+b", opener=private) as file:
                yield file

    def _turn_over(self) -> None:
        aside = self._folder / f"outgoing-{self._clock():%Y%m%dT%H%M%S%fZ}.jsonl"
        self._path.rename(aside)
        last = digest_of(last_line(aside.read_bytes()))
        with open(self._path, "xb", opener=private) as file:  # the chain goes on over files
            file.write(json.dumps({"begins_after": last}).encode() + b"\n")
        for old in sorted(self._folder.glob("outgoing-*.jsonl"))[: -self._kept]:
            old.unlink()


def private(path: str, flags: int) -> int:
    """Open a file that is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def digest_of(line: bytes) -> str:
    """The digest by which the next line names this one."""
    return hashlib.sha256(line).hexdigest() if line else FIRST


def last_line(content: bytes) -> bytes:
    """The last whole line, without its end."""
    return content.rstrip(b"\n").rpartition(b"\n")[2]


def last_digest(file: IO[bytes]) -> str:
    """What the next line of an open journal names as the one before it.

    A line that a power cut left unfinished is ended first, so that the next one stands by itself.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 16 * 1024))
    tail = file.read()
    if tail and not tail.endswith(b"\n"):
        file.write(b"\n")
    line = last_line(tail)
    return str(json.loads(line)["begins_after"]) if line.startswith(b'{"begins_after"') else digest_of(line)


def journal_files(folder: Path) -> list[Path]:
    """The files of a journal, the oldest first."""
    current = folder / FILE
    return [*sorted(folder.glob("outgoing-*.jsonl")), *([current] if current.exists() else [])]


def read_journal(folder: Path) -> Iterator[Entry]:
    """Every entry, the oldest first.

    Raises:
        JournalError: a line is none, or does not follow the one before it; naming file and line.
    """
    before: str | None = None
    for path in journal_files(folder):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            place = f"{path}, line {number}"
            if line.startswith(b'{"begins_after"'):
                named = str(json.loads(line)["begins_after"])
                if before is not None and named != before:
                    raise JournalError(f"{place}: a file that came before it is missing or was changed")
                before = named
                continue
            try:
                entry = Entry.model_validate_json(line)
            except ValidationError as error:
                raise JournalError(
                    f"{place} is no entry: the machine stopped there, or it was changed"
                ) from error
            if before is not None and entry.before != before:
                raise JournalError(
                    f"{place} does not follow the line before it: one was changed or taken out"
                )
            before = digest_of(line)
            yield entry


def chosen(
    folder: Path, *, run: str | None = None, since: str | None = None, last: int | None = None
) -> tuple[list[Entry], str]:
    """The entries that are asked for, and what is wrong with the journal; nothing where all lines follow.

    Args:
        folder: of the journal.
        run: the run's name; None for all.
        since: the day, `YYYY-MM-DD`; None for all.
        last: how many, the newest; None for all.
    """
    found: list[Entry] = []
    wrong = ""
    try:
        found.extend(
            entry
            for entry in read_journal(folder)
            if (run is None or entry.run == run) and (since is None or entry.at >= since)
        )
    except JournalError as error:
        wrong = f"{error}"
    return found if last is None else found[-last:], wrong


def lines_of(entries: Sequence[Entry]) -> Iterator[str]:
    """One line for each entry."""
    for each in entries:
        asked = [each.stage, f"round {each.round}", each.ask] if each.ask else []
        asked += [each.track] if each.ask and each.track != "global" else []
        what = f"{each.holds} ({each.tensors} tensors)" if each.tensors else each.holds
        many = f"{each.messages} messages, " if each.messages > 1 else ""
        yield ", ".join(
            [
                f"{each.at} {each.run or '-'}",
                each.kind,
                *([" ".join(asked)] if asked else []),
                what,
                f"{many}{each.bytes:,} bytes",
                each.sha256[:12],
            ]
        ).rstrip(", ")


def totals(entries: Sequence[Entry]) -> str:
    """What left in all."""
    messages = sum(each.messages for each in entries)
    return f"{messages:,} messages, {sum(each.bytes for each in entries):,} bytes left this hospital"

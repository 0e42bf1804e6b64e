"""A run over a federation, from the first question to the fetched report, whatever breaks on the way.

FLARE gives a job to the hospitals that are connected when it starts. One that is killed and returns is
connected again, but not in the job; a coordinator that is killed loses its job. As a run is crash-exact, both
are mended in the same way: stop the job, send it again, and let it continue from its checkpoint.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from clients.federation.errors import ConnectionLostError, FederationError
from clients.federation.job_folder import write_job
from clients.federation.kit import Kit
from clients.federation.mirror import Mirror
from clients.federation.standing import standing
from training.config import FrozenConfig
from training.errors import CheckpointError
from training.files import write_text
from training.job import Job

POLL = 1.0  # seconds between looks
TOLD_EVERY = 60.0  # seconds between lines that say for whom the run waits
SETTLED = 10.0  # seconds for which a hospital that returned must be back before the run is taken up with it
RECORD = "federated.json"
METRICS = "metrics.jsonl"
OUTCOME = "outcome.json"
ENDED = "FINISHED"  # how the names of all final states of a FLARE job begin
LOST = 5  # looks in a row at which no job runs, before it is taken for lost: it may be starting
ATTEMPTS = 5  # of a job that ends at once for a reason of FLARE's own, before we give up


class Following(Protocol):
    """What supervision needs of a link to the coordinator; see `clients.federation.link.Link`."""

    def submit(self, folder: Path) -> str:
        """Send a FLARE job; returns its id."""

    def state(self, job: str) -> str:
        """A FLARE job's state."""

    def follow(self, job: str, start: int, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a running job has said since `start`, and logged beyond what is known."""

    def connected(self) -> tuple[str, ...]:
        """The hospitals that are connected."""

    def jobs_at(self, names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """The FLARE jobs that run at hospitals that are connected."""

    def stop(self, job: str) -> None:
        """End a FLARE job."""

    def fetch(self, job: str, out: Path) -> None:
        """Put what a FLARE job left into `out`."""


class Record(FrozenConfig):
    """`federated.json` in `--out`: which run of the federation this is.

    Attributes:
        run: its name at all sites.
        digest: of its job.
        job: the FLARE job that runs it at present.
        sent: how often it was sent.
    """

    run: str
    digest: str
    job: str = ""
    sent: int = 0


@dataclass
class Supervisor:
    """Follows one run until it has ended.

    Attributes:
        kit: the admin's.
        link: to the coordinator.
        job: the job.
        out: where results go.
        say: takes one line for whoever watches.
        show: takes what is going on at the moment, in place of what it took before.
        sleep, clock: of seconds.
    """

    kit: Kit
    link: Following
    job: Job
    out: Path
    say: Callable[[str], None]
    show: Callable[[str], None] = lambda text: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _seen: int = 0
    _told: float = field(default=-TOLD_EVERY)
    _back: dict[str, float] = field(default_factory=dict)

    def run(self, *, resume: bool) -> dict[str, Any]:
        """Send the job, or take up the one that was sent; returns how it ended.

        Raises:
            CheckpointError: `out` holds something else.
            FederationError: FLARE will not run the job.
        """
        record = self._claim(resume=resume)
        failed = 0
        while True:
            if not record.job:
                self._wait_for(self._needed(record))
                record = self._send(record)
            how = self._follow(record.job)
            outcome = self._outcome(record.job) if how == ENDED else None
            if outcome is not None and outcome["state"] != "away":
                if outcome["state"] != "done":
                    self._keep(record.model_copy(update={"job": ""}))  # --resume sends it again
                return outcome
            if how == ENDED and outcome is None:
                failed += 1
                if failed >= ATTEMPTS:
                    raise FederationError(
                        f"FLARE ended job {record.job}, and {failed} times before it began; logs are in the "
                        "kits: node.log and log.txt of the coordinator and of each hospital"
                    )
            else:
                failed = 0
            if outcome is not None:
                self.say(outcome["text"])
            record = self._keep(record.model_copy(update={"job": ""}))

    def _claim(self, *, resume: bool) -> Record:
        path = self.out / RECORD
        if path.exists():
            record = Record.model_validate_json(path.read_text())
            if not resume:
                raise CheckpointError(
                    f"{self.out} holds a run already; continue it with --resume, or choose another --out"
                )
            if record.digest != self.job.digest:
                raise CheckpointError(
                    f"{self.out} holds a run of another job; resume with the job file it was started with, "
                    "or choose another --out"
                )
            return record
        if self.out.is_dir() and any(self.out.iterdir()):
            raise CheckpointError(f"{self.out} is not empty and holds no such run; choose another --out")
        name = f"{self.job.name}-{self.job.digest.removeprefix('sha256:')[:8]}-{token_hex(4)}"
        return self._keep(Record(run=name, digest=self.job.digest))

    def _keep(self, record: Record) -> Record:
        write_text(self.out / RECORD, record.model_dump_json() + "\n")
        return record

    def _needed(self, record: Record) -> Sequence[str]:
        """Before the first round everybody; later as many as a round needs, whoever they are."""
        names = self.kit.federation.names
        named = [client for source in self.job.data.sources for client in source.clients]
        return [name for name in names if not named or name in named]

    def _wait_for(self, names: Sequence[str]) -> None:
        """Wait until these hospitals are connected."""
        while True:
            try:
                missing = [name for name in names if name not in self.link.connected()]
            except ConnectionLostError as error:
                missing = [f"{error}"]
            if not missing:
                return
            self._tell(f"waiting for {', '.join(missing)}")
            self.sleep(POLL)

    def _send(self, record: Record) -> Record:
        """Send the job; a link that is lost meanwhile is waited for."""
        folder = write_job(self.kit.private / "job", self.job, record.run, self.kit.federation.names)
        while True:
            try:
                sent = self.link.submit(folder)
            except ConnectionLostError as error:
                self._tell(f"{error}")
                self.sleep(POLL)
            else:
                again = " again" if record.sent else ""
                self.say(f"sent{again}: run {record.run}, FLARE job {sent}")
                return self._keep(record.model_copy(update={"job": sent, "sent": record.sent + 1}))

    def _follow(self, job: str) -> str:
        """Show what the job says until it ends, is lost, or is stopped for a hospital that returned."""
        self._back.clear()
        mirror = Mirror(self.out / METRICS)
        lost = 0
        while True:
            try:
                state = self.link.state(job)
                told = self.link.follow(job, self._seen, mirror.known()) if state == "RUNNING" else {}
                mirror.take(told)
                self._show(told)
                if state.startswith(ENDED):
                    return ENDED
                lost = 0 if state else lost + 1
                if lost >= LOST:
                    self.say("the coordinator lost the job, as it does when it is killed")
                    return "lost"
                returned = self._returned(job, told)
                if returned:
                    self.say(f"{', '.join(returned)} returned; the run is taken up with all that are there")
                    self._stop(job)
                    return "stopped"
            except ConnectionLostError as error:
                self._tell(f"{error}")
            self.sleep(POLL)

    def _show(self, told: Mapping[str, Any]) -> None:
        text = told.get("text", "")
        self._seen = told.get("next", self._seen)
        for line in text.splitlines():
            self.say(line)
        self.show(standing(told))
        if told.get("seconds", 0) > TOLD_EVERY and not told.get("waiting"):
            self._tell(standing(told))

    def _returned(self, job: str, told: Mapping[str, Any]) -> list[str]:
        """Hospitals that the job takes for away and that are back, with a process of another life."""
        away = list(told.get("away", {}))
        if not away:
            self._back.clear()
            return []
        try:
            connected = self.link.connected()
            running = self.link.jobs_at([name for name in away if name in connected])
        except ConnectionLostError:
            return []  # a hospital that is asleep keeps the coordinator waiting for its reply
        outside = told.get("outside", [])  # not let in by this job, whose process there may still run
        there = {name for name, jobs in running.items() if job not in jobs or name in outside}
        now = self.clock()
        self._back = {name: self._back.get(name, now) for name in away if name in there}
        return [name for name, since in self._back.items() if now - since >= SETTLED]

    def _stop(self, job: str) -> None:
        self.link.stop(job)
        while not self.link.state(job).startswith(ENDED):
            self.sleep(POLL)

    def _outcome(self, job: str) -> dict[str, Any] | None:
        """How our part of a FLARE job ended; None where it never came to its end."""
        while True:
            try:
                self.link.fetch(job, self.out)
                break
            except ConnectionLostError as error:
                self._tell(f"{error}")
                self.sleep(POLL)
        path = self.out / OUTCOME
        if not path.exists():
            return None
        outcome: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        return outcome

    def _tell(self, text: str) -> None:
        if self.clock() - self._told > TOLD_EVERY:
            self._told = self.clock()
            self.say(text)

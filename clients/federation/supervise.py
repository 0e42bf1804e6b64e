"""Supervision of a federated run: submitted, followed, resubmitted after failures, and fetched.

FLARE gives a job to the hospitals that are connected when it starts. One that is killed and returns is
connected again, but not in the job; a coordinator that is killed loses its job. As a run is crash-exact, both
are mended in the same way: stop the job, send it again, and let it continue from its checkpoint. So is a job
that FLARE ends for all because the process of one hospital ended, as it does where memory runs out.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from clients.federation.admin_client import AdminClient
from clients.federation.errors import ConnectionLostError, FederationError
from clients.federation.job_folder import write_job
from clients.federation.kit import Kit, open_kit
from clients.federation.status import MetricsFollower, rounds_line, status_line
from registry.bundle.text import nearest
from training.config import FrozenConfig
from training.errors import CheckpointError
from training.files import write_text
from training.jobs.job import Job
from training.progress import RECENT

Reply = TypeVar("Reply")
POLL = 1.0  # seconds between looks
REPORT_EVERY = 30.0  # seconds between lines that say for whom the run waits
SETTLED = 10.0  # seconds for which a hospital that returned must be back before the run is taken up with it
LONGEST_NAME = 100  # letters of a job's name in a run's
RECORD = "federated.json"
METRICS = "metrics.jsonl"
OUTCOME, PROGRESS = "outcome.json", "progress.log"
ENDED = "FINISHED"  # how the names of all final states of a FLARE job begin
DONE = {"state": "done", "error": "", "text": ""}
BEGINNING = {  # what goes on in a FLARE job of which nothing is heard yet, by its state
    "SUBMITTED": "the coordinator has the job, and gives it to the hospitals that are connected",
    "DISPATCHED": "the coordinator and the hospitals start their processes of the job",
    "RUNNING": "the coordinator and the hospitals start their processes of the job",
}
QUIET = 3.0  # seconds without a line after which it is said
LOST, STOPPED = "lost", "stopped"  # the other ways in which following a job ends
OFFLINE, FULL = "offline", "full"  # outcomes: a site is offline; the coordinator's disk is full
AGAIN = (OFFLINE, FULL, STOPPED)  # after these the job is sent again
ROOM = 120.0  # seconds until the job is sent again to a coordinator whose disk was full
ATTEMPTS = 5  # of a job that gets no further for a reason of FLARE's own, before we give up


class RunRecord(FrozenConfig):
    """The content of `federated.json` in `--out`: which run of the federation this is.

    Attributes:
        run: its name at all sites.
        digest: of its job.
        job: the FLARE job that runs it at present.
        sent: how often it was sent.
        without: the hospitals that were dismissed.
        shown: bytes of its progress that were shown.
        done: whether the run is, and all of it fetched.
    """

    run: str
    digest: str
    job: str = ""
    sent: int = 0
    without: tuple[str, ...] = ()
    shown: int = 0
    done: bool = False


@dataclass
class Supervisor:
    """Follows one run until it has ended, resubmitting its job where it must.

    Attributes:
        kit: the admin's.
        admin: a session with the coordinator.
        job: the job.
        out: where results go.
        say: takes one line for the user.
        show: takes the current status, which replaces the previous one.
        sleep, clock: of seconds.
    """

    kit: Kit
    admin: AdminClient
    job: Job
    out: Path
    say: Callable[[str], None]
    show: Callable[[str], None] = lambda text: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _record: RunRecord = field(default=RunRecord(run="", digest=""), init=False)
    _reported: float = field(default=-REPORT_EVERY)
    _returned_since: dict[str, float] = field(default_factory=dict)

    def run(self, *, resume: bool, without: Sequence[str] = ()) -> dict[str, Any]:
        """Submit the job, or take up the one that was submitted; returns the outcome.

        Args:
            resume: whether to take up the run in `out`.
            without: hospitals that are dismissed from it, in addition to those dismissed earlier.

        Raises:
            CheckpointError: `out` holds something else.
            FederationError: FLARE will not run the job, or no such hospital can be dismissed.
        """
        refuse_unknown(without, self.kit.federation.names)
        self._record = self._claim(resume=resume)
        if self._record.done:
            return DONE
        self._dismiss(without)
        failed, reached = 0, self._reached()
        offline = False
        while True:
            if not self._record.job:
                self._wait(everybody=offline or self._record.shown == 0)
                self._send()
            job, shown = self._record.job, self._record.shown
            how = self._follow(job)
            outcome = self._outcome(job) if how == ENDED else None
            if outcome is not None and outcome["state"] not in AGAIN:
                self._update_record(job="", done=outcome["state"] == DONE["state"])
                self._forget(job)
                return outcome
            stopped = outcome is not None and outcome["state"] == STOPPED
            # A job whose own end is missing leaves no log of rounds: then whatever it said is progress.
            further = self._reached() > reached if stopped else self._record.shown > shown
            reached = self._reached()
            failed = failed + 1 if how == ENDED and (outcome is None or stopped) and not further else 0
            if failed >= ATTEMPTS:
                raise FederationError(
                    f"FLARE ended job {job}, and {failed} times before it got any further; logs are in "
                    "the kits: node.log and log.txt of the coordinator and of each hospital. A hospital's "
                    "process may run out of memory. Mend it and continue with --resume"
                )
            if stopped:
                self.say(
                    "FLARE ended the job, as it does when a hospital's process ends; it is taken up again"
                )
            elif outcome is not None:
                self.say(outcome["text"])
            elif how == ENDED:
                self.say("FLARE ended the job before it was done; it is sent again")
            # Before the first round no site may be offline.
            offline = outcome is not None and outcome["state"] == OFFLINE
            if outcome is not None or how == STOPPED:
                self._forget(job)
            self._update_record(job="")
            if outcome is not None and outcome["state"] == FULL:
                self.say(f"the coordinator's disk is full; the run waits, and is taken up in {ROOM:.0f} s")
                self.sleep(ROOM)

    def _reached(self) -> int:
        """How far the run has got, as far as its metrics were fetched, in bytes of `metrics.jsonl`."""
        path = self.out / METRICS
        return path.stat().st_size if path.exists() else 0

    def _claim(self, *, resume: bool) -> RunRecord:
        path = self.out / RECORD
        if path.exists():
            record = RunRecord.model_validate_json(path.read_text())
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
        name = f"{self.job.name[:LONGEST_NAME]}-{self.job.digest.removeprefix('sha256:')[:8]}-{token_hex(4)}"
        self._record = RunRecord(run=name, digest=self.job.digest)
        self._update_record()
        return self._record

    def _dismiss(self, names: Sequence[str]) -> None:
        """Record who is dismissed; a job that was sent with them is stopped, and sent again without."""
        record = self._record
        new = tuple(dict.fromkeys(name for name in names if name not in record.without))
        if not new:
            return
        self.say(f"{', '.join(new)} dismissed from run {record.run}")
        self._interrupt()
        self._update_record(job="", without=(*record.without, *new))

    def _interrupt(self) -> None:
        """Stop the job that runs, if one does."""
        if job := self._record.job:
            self._when_reached(lambda: self._stop(job))
            self._forget(job)

    def _update_record(self, **changes: Any) -> None:
        """Change the run's record, and write it."""
        self._record = self._record.model_copy(update=changes)
        write_text(self.out / RECORD, self._record.model_dump_json() + "\n")

    def _expected(self) -> Sequence[str]:
        """The hospitals that the job expects."""
        names = [name for name in self.kit.federation.names if name not in self._record.without]
        named = [client for source in self.job.data.sources for client in source.clients]
        return [name for name in names if not named or name in named]

    def _wait(self, *, everybody: bool) -> None:
        """Wait until all hospitals are connected.

        Once the run has begun, those that a round can do without are waited for only up to the round's
        heartbeat timeout.

        Args:
            everybody: whether the run cannot begin without them.
        """
        names = self._expected()
        enough = len(names) if everybody else min(self.job.engine.min_clients or len(names), len(names))
        since: float | None = None
        while True:
            try:
                connected = self.admin.connected()
                missing = [name for name in names if name not in connected]
                enough_there = len(names) - len(missing) >= enough
            except ConnectionLostError as error:
                missing, enough_there = [f"{error}"], False
            if not missing:
                return
            since = (since if since is not None else self.clock()) if enough_there else None
            if since is not None and self.clock() - since >= self.job.engine.network.heartbeat_timeout:
                self.say(f"the run goes on without {', '.join(missing)}")
                return
            self._report(f"waiting for {', '.join(missing)}")
            self.sleep(POLL)

    def _send(self) -> None:
        """Submit the job, retrying while the coordinator is not reached."""
        record = self._record
        hospitals = [name for name in self.kit.federation.names if name not in record.without]
        folder = write_job(self.kit.private / "job", self.job, record.run, hospitals, record.without)
        sent = self._when_reached(lambda: self.admin.submit(folder))
        self.say(f"sent{' again' if record.sent else ''}: run {record.run}, FLARE job {sent}")
        self._update_record(job=sent, sent=record.sent + 1)

    def _follow(self, job: str) -> str:
        """Show the job's progress until it ends, is lost, or is stopped for a hospital that returned."""
        self._returned_since.clear()
        metrics = MetricsFollower(self.out / METRICS)
        began, shown, told = self.clock(), self._record.shown, ""
        while True:
            try:
                state = self.admin.state(job)
                running = state == "RUNNING"
                progress = self.admin.follow(job, self._record.shown, metrics.known()) if running else {}
                metrics.take(progress)
                self._show(progress, rounds_line(self.job, metrics.last(RECENT)) if running else "")
                beginning = BEGINNING.get(state, "")
                quiet = not progress and self._record.shown == shown and self.clock() - began >= QUIET
                if quiet and beginning not in (told, ""):
                    told = beginning
                    self.say(f"{told} ({self.clock() - began:.0f} s)")
                if state.startswith(ENDED):
                    return ENDED
                if not state:
                    self.say("the coordinator lost the job, as it does when it is killed")
                    return LOST
                returned = self._returned(job, progress)
                if returned:
                    self.say(f"{', '.join(returned)} returned; the run is taken up with all that are there")
                    self._stop(job)
                    return STOPPED
            except ConnectionLostError as error:
                self._report(f"{error}")
            self.sleep(POLL)

    def _show(self, progress: Mapping[str, Any], rounds: str) -> None:
        for line in progress.get("text", "").splitlines():
            self.say(line)
        if progress.get("next", self._record.shown) != self._record.shown:
            self._update_record(shown=progress["next"])
        text = "; ".join(part for part in (status_line(progress), rounds) if part)
        self.show(text)
        if progress.get("seconds", 0) > REPORT_EVERY and not progress.get("waiting"):
            self._report(text)

    def _show_last(self) -> None:
        """Say what the job printed between the last look at it and its end, now that it is here."""
        path = self.out / PROGRESS
        content = path.read_bytes() if path.exists() else b""
        if len(content) > self._record.shown:
            for line in content[self._record.shown :].decode(errors="replace").splitlines():
                self.say(line)
            self._update_record(shown=len(content))

    def _returned(self, job: str, progress: Mapping[str, Any]) -> list[str]:
        """Hospitals that the job counts as offline and that are back, in a new process."""
        offline = list(progress.get("offline", {}))
        if not offline:
            self._returned_since.clear()
            return []
        try:
            connected = self.admin.connected()
            running = self.admin.jobs_at([name for name in offline if name in connected])
        except ConnectionLostError:
            return []  # a hospital that is asleep keeps the coordinator waiting for its reply
        outside = progress.get("outside", [])  # not let in by this job, whose process there may still run
        there = {name for name, jobs in running.items() if job not in jobs or name in outside}
        now = self.clock()
        self._returned_since = {
            name: self._returned_since.get(name, now) for name in offline if name in there
        }
        return [name for name, since in self._returned_since.items() if now - since >= SETTLED]

    def _stop(self, job: str) -> None:
        """Stop the job and wait for its end; one that is lost meanwhile has ended, too."""
        self.admin.stop(job)
        while (state := self.admin.state(job)) and not state.startswith(ENDED):
            self.sleep(POLL)

    def _forget(self, job: str) -> None:
        """Delete a finished job, if the coordinator is reached; it keeps no more than a few itself."""
        with suppress(ConnectionLostError):
            self.admin.forget(job)

    def _outcome(self, job: str) -> dict[str, Any] | None:
        """The outcome that our part of a FLARE job wrote; None where it never came to its end."""
        self._when_reached(lambda: self.admin.fetch(job, self.out))
        path = self.out / OUTCOME
        if not path.exists():
            return None
        self._show_last()
        outcome: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        return outcome

    def _when_reached(self, ask: Callable[[], Reply]) -> Reply:
        """Ask the coordinator, again and again while it is not reached."""
        while True:
            try:
                return ask()
            except ConnectionLostError as error:
                self._report(f"{error}")
                self.sleep(POLL)

    def _report(self, text: str) -> None:
        if self.clock() - self._reported > REPORT_EVERY:
            self._reported = self.clock()
            self.say(text)


def refuse_unknown(names: Sequence[str], hospitals: Sequence[str]) -> None:
    """Refuse to dismiss anyone who is no hospital of the federation, or all of them.

    Raises:
        FederationError: naming who is in.
    """
    for name in names:
        if name not in hospitals:
            raise FederationError(
                f"there is no hospital {name!r} to dismiss; {nearest(name, list(hospitals))}"
            )
    if hospitals and not set(hospitals) - set(names):
        raise FederationError("no hospital would be left; end the run instead of dismissing all of them")


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
    opened = open_kit(kit, "admin")
    with closing(AdminClient(opened)) as admin:
        return Supervisor(opened, admin, job, out, say, show).run(resume=resume, without=without)

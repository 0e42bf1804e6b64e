"""One session of the coordinator: registration, the engine, and the job's stages from where they were left.

It knows no FLARE: it is given channels to the sites. The caller may end it at any instant and begin another
session with the same folder; the run ends with the same weights.
"""

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import torch
import yaml
from rich.console import Console

from registry.bundle.text import printable
from training.engines.calls import Channel, LivenessTracker
from training.engines.flare import AcknowledgedRounds, CensusCache, NvflareEngine, Status
from training.engines.registration import Registration, read_roster
from training.engines.roster import ClientProperties, Roster, evict
from training.errors import CheckpointError
from training.files import write_text
from training.jobs.client_app import ClientApp
from training.jobs.disclosure_report import decide_masks, disclosures
from training.jobs.job import Job, read_job
from training.jobs.pipeline import RunResult, run_stages
from training.jobs.run_folder import RunFolder
from training.jobs.stages.base import Attest, Registrar, no_registry, unsigned
from training.rounds.server.metrics import MetricsLog


class LogStream(io.TextIOBase):
    """A text stream that writes to a file, and logs whole lines for the run's followers.

    Args:
        file: where all is written.
        logger: where lines are logged.
    """

    def __init__(self, file: TextIO, logger: logging.Logger) -> None:
        self._file = file
        self._logger = logger
        self._begun = ""

    def write(self, text: str) -> int:
        """Write, and log the lines that are complete by now."""
        self._file.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self._logger.info("%s", line.rstrip())
        return len(text)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()


ROSTER, ACKNOWLEDGED, CENSUS_FOLDER = "roster.json", "ledger.json", "census"


@dataclass(frozen=True)
class OwnPictures:
    """The coordinator's own pictures.

    Attributes:
        properties: the client properties of them.
        client_app: plays the client that has them, once all have agreed on job and roster.
    """

    properties: ClientProperties
    client_app: Callable[[Job, Roster], ClientApp]


class CoordinatorSession:
    """Runs a job in one session of the coordinator.

    Args:
        job: the job.
        session: its name, another each time.
        channels: to the sites that are connected, by name.
        folder: of the run.
        console: where progress is shown.
        own: the coordinator's own pictures, where the job gives it any.
        stopped: whether the session was ended from outside.
        without: the hospitals that are evicted from the run.

    Attributes:
        unreached: the sites of the roster that did not register; another session may register them.
    """

    def __init__(
        self,
        job: Job,
        session: str,
        channels: Mapping[str, Channel],
        folder: RunFolder,
        console: Console,
        *,
        own: OwnPictures | None = None,
        stopped: Callable[[], bool] = bool,
        without: Sequence[str] = (),
    ) -> None:
        self._job = job
        self._session = session
        self._channels = channels
        self._folder = folder
        self._console = console
        self._own = own
        self._stopped = stopped
        self._without = without
        self._engine: NvflareEngine | None = None
        self.unreached: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Where the run stands."""
        return self._engine.status if self._engine else Status()

    def run(
        self, expected: Sequence[str], registrar: Registrar = no_registry, attest: Attest = unsigned
    ) -> RunResult:
        """All stages of the job.

        Args:
            expected: the sites that the job is for, in client order.
            registrar: where released models go.
            attest: signs the figures of bundles.

        Raises:
            OfflineError: the run cannot begin, since a site is offline.
            StoppedError: the session was ended from outside.
            TrainingError: whatever stops the run; all that was finished stays in the folder.
        """
        torch.set_num_threads(self._job.engine.threads_per_client)  # the coordinator sums
        self._claim()
        liveness = LivenessTracker(self._channels, self._job.engine.network.heartbeat_timeout)
        try:
            own = self._own.properties if self._own else None
            registration = Registration(
                self._job, self._session, self._channels, liveness, own, self.log, expected
            )
            path = self._folder.path / ROSTER
            begun = path.exists()
            if begun:
                self._evict(path)
                participants = registration.resume(path)
            else:
                participants = registration.begin(
                    [name for name in expected if name not in self._without], path
                )
                participants = replace(participants, roster=self._evict(path))
            self.unreached = participants.unreached
            known = {*expected, *participants.roster.everybody}
            job = decide_masks(self._job, known)
            if not begun:
                for seen in disclosures(self._job, known):
                    self.log(f"who sees what: {seen.line}")
            for name, why in participants.missing.items():
                liveness.exclude(name, why)
            self._engine = engine = NvflareEngine(
                job,
                participants.channels,
                liveness=liveness,
                session=self._session,
                acknowledged=AcknowledgedRounds(self._folder.path / ACKNOWLEDGED),
                census_cache=CensusCache(self._folder.path / CENSUS_FOLDER),
                spool=self._folder.spool,
                own=self._own.client_app(job, participants.roster) if self._own else None,
                log=self.log,
                stopped=self._stopped,
            )
            with MetricsLog(self._folder.metrics, self._console) as metrics_log:
                result = run_stages(
                    job,
                    participants.roster,
                    engine,
                    metrics_log,
                    self._folder.path,
                    registrar,
                    dismissed=participants.roster.dismissed,
                    attest=attest,
                    left_out=participants.roster.left_out,
                )
            engine.close()
        finally:
            liveness.close()
        return result

    def log(self, text: str) -> None:
        """Log one line on the console."""
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def _evict(self, path: Path) -> Roster:
        """Evict hospitals from the run; which were, and when, stays in the roster's file.

        Raises:
            CheckpointError: the roster cannot be read.
            JobError: no hospital would be left.
        """
        roster = read_roster(path)
        new = [name for name in self._without if name not in roster.dismissed]
        if new:
            roster = evict(roster, new)
            write_text(path, roster.model_dump_json(indent=2) + "\n")
            self.log(f"{', '.join(new)} dismissed: asked nothing more, and waited for no longer")
        return roster

    def _claim(self) -> None:
        """Take the folder, which this job alone has used, or will.

        Raises:
            CheckpointError: another job has.
        """
        if not (self._folder.path / ROSTER).exists():
            resolved = yaml.safe_dump(self._job.resolved(), sort_keys=False, allow_unicode=True)
            write_text(self._folder.job_file, resolved)
        elif read_job(self._folder.job_file).digest != self._job.digest:
            raise CheckpointError(
                f"{self._folder.path} holds a run of another job; start a run of its own for this one"
            )

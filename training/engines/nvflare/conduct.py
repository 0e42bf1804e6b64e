"""One session of the coordinator: the door, the engine, and the job's stages from where they were left.

It knows no FLARE: lines to the sites are given. Whoever gives them may end it at any instant and begin
another session with the same folder; the run ends with the same weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import yaml
from rich.console import Console

from training.engines.nvflare.attendance import Attendance
from training.engines.nvflare.counted import Counted
from training.engines.nvflare.dismissal import dismiss
from training.engines.nvflare.door import Door, read_roster
from training.engines.nvflare.engine import NvflareEngine, Status
from training.engines.nvflare.ledger import Ledger
from training.engines.nvflare.lines import Line
from training.errors import CheckpointError
from training.files import write_text
from training.job import Job, read_job
from training.journal import Journal
from training.pipeline import RunResult, run_stages
from training.registrar import Registrar, no_registry
from training.roster import Introduction, Roster
from training.run_folder import RunFolder
from training.site import Site

ROSTER, LEDGER, CENSUS_FOLDER = "roster.json", "ledger.json", "census"


@dataclass(frozen=True)
class OwnPictures:
    """The coordinator's own pictures.

    Attributes:
        introduction: what it tells of them.
        site: plays the client that has them, once all have agreed.
    """

    introduction: Introduction
    site: Callable[[Roster], Site]


class Conductor:
    """Conducts one session.

    Args:
        job: the job.
        session: its name, another each time.
        lines: to the sites that are connected, by name.
        folder: of the run.
        console: where progress is shown.
        own: the coordinator's own pictures, where the job gives it any.
        stopped: whether the session was ended from outside.
        without: the hospitals that are dismissed.

    Attributes:
        outside: the sites of the roster that were not reached at the door; another session may let them in.
    """

    def __init__(
        self,
        job: Job,
        session: str,
        lines: Mapping[str, Line],
        folder: RunFolder,
        console: Console,
        *,
        own: OwnPictures | None = None,
        stopped: Callable[[], bool] = bool,
        without: Sequence[str] = (),
    ) -> None:
        self._job = job
        self._session = session
        self._lines = lines
        self._folder = folder
        self._console = console
        self._own = own
        self._stopped = stopped
        self._without = without
        self._engine: NvflareEngine | None = None
        self.outside: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Where the run stands."""
        return self._engine.status if self._engine else Status()

    def run(self, expected: Sequence[str], registrar: Registrar = no_registry) -> RunResult:
        """All stages of the job.

        Args:
            expected: the sites that the job is for, in client order.
            registrar: where released models go.

        Raises:
            AwayError: the run cannot begin, since a site is away.
            StoppedError: the session was ended from outside.
            TrainingError: whatever stops the run; all that was finished stays in the folder.
        """
        torch.set_num_threads(self._job.engine.threads_per_client)  # the coordinator sums
        self._claim()
        attendance = Attendance(self._lines, self._job.engine.network.silence)
        try:
            own = self._own.introduction if self._own else None
            door = Door(self._job, self._session, self._lines, attendance, own, self.say)
            path = self._folder.path / ROSTER
            if path.exists():
                self._dismiss(path)
                welcome = door.come_back(path)
            else:
                welcome = door.begin([name for name in expected if name not in self._without], path)
                welcome = replace(welcome, roster=self._dismiss(path))
            self.outside = welcome.unreached
            for name, why in welcome.missing.items():
                attendance.never(name, why)
            self._engine = engine = NvflareEngine(
                self._job,
                welcome.lines,
                attendance=attendance,
                session=self._session,
                ledger=Ledger(self._folder.path / LEDGER),
                counted=Counted(self._folder.path / CENSUS_FOLDER),
                spool=self._folder.spool,
                own=self._own.site(welcome.roster) if self._own else None,
                say=self.say,
                stopped=self._stopped,
            )
            with Journal(self._folder.metrics, self._console) as journal:
                result = run_stages(
                    self._job,
                    welcome.roster,
                    engine,
                    journal,
                    self._folder.path,
                    registrar,
                    dismissed=welcome.roster.dismissed,
                )
            engine.close()
        finally:
            attendance.close()
        return result

    def say(self, text: str) -> None:
        """Show one line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _dismiss(self, path: Path) -> Roster:
        """Take hospitals out of the run; who was, and when, stays in the roster's file.

        Raises:
            CheckpointError: the roster cannot be read.
            JobError: nobody would be left.
        """
        roster = read_roster(path)
        new = [name for name in self._without if name not in roster.dismissed]
        if new:
            roster = dismiss(roster, new)
            write_text(path, roster.model_dump_json(indent=2) + "\n")
            self.say(f"{', '.join(new)} dismissed: asked nothing more, and waited for no longer")
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

"""The coordinator inside FLARE's server job: wires the packages together, as `run.py` does on one machine.

Like `run.py` it wires the packages together and decides nothing. Results, checkpoints and the registry are
here; the user who submitted the job fetches what they need.
"""

import json
import logging
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TextIO, cast

from nvflare.apis.signal import Signal
from nvflare.collab import collab
from nvflare.collab.api.context import get_call_context
from rich.console import Console

from dermfed.own_names import refuse_foreign

refuse_foreign()

from clients.data.picture_files import cache_folder
from clients.federation.job_folder import unpack
from clients.federation.kit import Kit, open_kit
from clients.federation.processes import end_with_parent
from clients.federation.status import DisabledHospitals, log_delta
from clients.node.own_data import agreed, read_own
from clients.store import ClientStore
from personalization.report.data import report_data
from personalization.report.page import render_report
from training.algorithms.client import FolderReleases
from training.data.dataset import SERVER
from training.engines.calls import AT_ONCE, Channel, StoppedError
from training.engines.flare_calls import CallLeftovers, FlareCall, spare_what_is_here
from training.engines.in_process import keep_freed_memory
from training.engines.registration import OfflineError
from training.engines.roster import Roster
from training.engines.session import ROSTER, CoordinatorSession, LogStream, OwnPictures
from training.errors import CheckpointError, JobError, QuorumError, TrainingError, is_of_a_full_disk
from training.files import locked_within, plain_segment, write_text
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.jobs.run_folder import RunFolder
from training.messages import tensor_bytes
from training.models import initial_model
from training.models.classifier import float_state
from training.wiring import attester, open_registrar

LOGGER = logging.getLogger("dermfed.coordinator")
OUTCOME = "outcome.json"  # how the job ended, for whoever sent it
RESULTS = "dermfed"  # the folder of a FLARE job's results that holds ours
PROGRESS = "progress.log"
FETCHED = ("job.resolved.yaml", "metrics.jsonl", "summary.json", "report.html", PROGRESS, ROSTER)
FOLLOW = "follow"  # the command by which whoever follows the run asks where it stands
WIDTH = 200  # columns of a line of progress
PATIENCE = 60.0  # seconds that a coordinator whose predecessor is still ending waits for it
LOGS = "logs"  # of FLARE's jobs, in a run's folder
DONE, OFFLINE, STOPPED, REFUSED, WRONG = "done", "offline", "stopped", "refused", "wrong"
FULL = "full"  # its own disk


class Coordinator:
    """The coordinator in one job; FLARE makes it when the job starts.

    Args:
        job: the job, packed.
        run: the folder's name under `private/runs`, the same whenever the run is taken up again.
        without: the hospitals that are dismissed, with commas between.
    """

    def __init__(self, job: str, run: str, without: str = "") -> None:
        self._packed = job
        self._run = plain_segment(run, "the run's name")
        self._without = tuple(name for name in without.split(",") if name)
        self._session: CoordinatorSession | None = None

    @collab.main
    def coordinate(self) -> None:
        """Run the job from where it was left; leave behind how it ended."""
        end_with_parent()
        session = collab.fl_ctx.get_job_id()
        kit = open_kit(Path(collab.workspace.get_root_dir()), "server")
        folder = RunFolder(kit.private / "runs" / self._run)
        folder.path.mkdir(parents=True, exist_ok=True)
        progress = folder.path / PROGRESS
        collab.fl_ctx.get_engine().register_app_command(
            FOLLOW, lambda _topic, asked, _context: self._report(folder, asked)
        )
        outcome = {"state": DONE, "error": "", "text": ""}
        try:
            with run_lock(folder.path), progress.open("a", buffering=1) as file:
                console = Console(file=cast(TextIO, LogStream(file, LOGGER)), width=WIDTH)
                self._work(kit, unpack(self._packed), folder, session, console)
        except (TrainingError, OSError) as error:
            outcome = outcome_of(error)
        LOGGER.info("the job ended: %s", " ".join(filter(None, outcome.values())))
        leave_results(Path(collab.workspace.get_run_dir(session)), folder, session, outcome)

    def _work(self, kit: Kit, job: Job, folder: RunFolder, session: str, console: Console) -> None:
        context, heartbeat_timeout = get_call_context(), job.engine.network.heartbeat_timeout
        moving, leftovers = threading.BoundedSemaphore(AT_ONCE), CallLeftovers()
        spare_what_is_here()
        disabled, over = DisabledHospitals(kit.path), Signal(parent=context.abort_signal)
        model_bytes = cache(partial(bytes_of_model, job))
        self._session = CoordinatorSession(
            job,
            session,
            {
                proxy.name: Channel(
                    proxy.name,
                    FlareCall(proxy, context, leftovers, over, partial(disabled.refuse, proxy.name)),
                    folder.spool,
                    heartbeat_timeout,
                    moving,
                    model_bytes=model_bytes,
                )
                for proxy in collab.clients
            },
            folder,
            console,
            own=own_pictures(kit, job, folder),
            stopped=context.is_aborted,
            without=self._without,
        )
        attest = attester()
        try:
            with open_registrar(job) as registrar:
                result = self._session.run(expected_sites(kit, job), registrar, attest)
        finally:
            over.trigger(True)
        data = report_data(result)
        if data.counts:
            write_text(folder.report, render_report(data))

    def _report(self, folder: RunFolder, asked: object) -> dict[str, Any]:
        """The run's status for its followers: new log lines, offline sites, sites it waits for."""
        start = int(asked.get("from", 0)) if isinstance(asked, dict) else 0
        progress = folder.path / PROGRESS
        content = progress.read_bytes() if progress.exists() else b""
        report: dict[str, Any] = {"text": content[start:].decode(errors="replace"), "next": len(content)}
        if self._session is not None:
            status = self._session.status
            report |= {"offline": status.offline, "waiting": list(status.waiting), "asking": status.asking}
            report |= {"answered": list(status.answered), "pending": list(status.pending)}
            report |= {"seconds": status.seconds}
            report["outside"] = list(self._session.unreached)
        if isinstance(asked, dict) and "known" in asked:
            report |= log_delta(folder.metrics, asked["known"])
        return report


def outcome_of(error: Exception) -> dict[str, str]:
    """The outcome of a job that an error ended, for the user who submitted it."""
    return {"state": end_state(error), "error": type(error).__name__, "text": f"{error}"}


def end_state(error: Exception) -> str:
    """How a run ended that an error ended."""
    if isinstance(error, OfflineError):
        return OFFLINE
    if isinstance(error, StoppedError):
        return STOPPED
    if is_of_a_full_disk(error):
        return FULL
    return REFUSED if isinstance(error, QuorumError) else WRONG


def expected_sites(kit: Kit, job: Job) -> tuple[str, ...]:
    """The sites that a job is for: those that its sources name, or every hospital of the federation.

    Raises:
        JobError: the job names a site that is not in the federation.
    """
    named = [client for source in job.data.sources for client in source.clients]
    strange = sorted(set(named) - set(kit.federation.names))
    if strange:
        raise JobError(
            f"the job's sources name {', '.join(strange)}, which are not in the federation: "
            f"{', '.join(kit.federation.names)}"
        )
    return tuple(named) or kit.federation.names


def bytes_of_model(job: Job) -> int:
    """The bytes of a job's model, its head for two classes: a measure of how long an answer may be."""
    return tensor_bytes(
        float_state(initial_model(job.model, job.seed, job.data.image_size, 2, job.data.case))
    )


def own_pictures(kit: Kit, job: Job, folder: RunFolder) -> OwnPictures | None:
    """The coordinator's own pictures, where the job has a use for them and there are any."""
    data = kit.settings().data
    if job.data.server is None or data is None:
        return None
    own = read_own(job, SERVER, Path(data), cache_folder())

    def site(decided: Job, roster: Roster) -> ClientApp:
        keep_freed_memory()
        store, releases = ClientStore(folder.store), FolderReleases(folder.releases)
        return ClientApp(decided, agreed(own, roster), store, releases=releases)

    return OwnPictures(own.properties, site)


@contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold a run's folder: of a predecessor that was taken for dead, two may never write at once.

    Raises:
        CheckpointError: it is still held.
    """
    with (path / "lock").open("w") as file:
        if not locked_within(file, PATIENCE):
            raise CheckpointError(f"{path} is held by another process; end it first")
        yield


def leave_results(place: Path, folder: RunFolder, session: str, outcome: Mapping[str, str]) -> None:
    """Leave what may be fetched, and how the job ended: well only where all of it is there.

    Where the disk has no room for it, what was copied makes room for the line that says so.
    """
    results = place / RESULTS
    try:
        keep_log(place, folder, session)
        publish_results(folder, results)
    except OSError as error:
        if not is_of_a_full_disk(error):
            raise
        shutil.rmtree(results, ignore_errors=True)
        outcome = outcome_of(error)
    write_text(results / OUTCOME, json.dumps(outcome) + "\n")


def keep_log(place: Path, folder: RunFolder, session: str) -> None:
    """Keep the log of a FLARE job, which FLARE deletes with the job once its results are fetched."""
    log = place / "log.txt"
    if log.is_file():
        (folder.path / LOGS).mkdir(exist_ok=True)
        shutil.copyfile(log, folder.path / LOGS / f"{session}.txt")


def publish_results(folder: RunFolder, results: Path) -> None:
    """Put what may be fetched where FLARE takes a job's results from."""
    results.mkdir(parents=True, exist_ok=True)
    for name in FETCHED:
        if (folder.path / name).is_file():
            shutil.copyfile(folder.path / name, results / name)
    if (folder.path / "bundles").is_dir():
        shutil.copytree(folder.path / "bundles", results / "bundles", dirs_exist_ok=True)

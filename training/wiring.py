"""Wires the packages together: a job of this machine, of a federation, and its check.

Wiring alone: whatever could go wrong or be decided here belongs in a package. `training.run` is the command,
and imports this once a job has the right shape: torch and the figures take seconds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from clients.data.near_duplicate_links import leak_notes
from clients.data.picture_files import cache_folder
from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from clients.federation.kit import open_kit
from clients.store import ClientStore
from personalization.report.data import report_data
from personalization.report.page import render_report
from registry.bundle.folder import Bundle
from registry.bundle.text import printable
from registry.environment import key_password, signing_key
from registry.errors import KeyUnusable, Refused
from registry.registry import Registry, key_signatory
from training.algorithms.client import FolderReleases
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.errors import JobError, TrainingError
from training.files import write_text
from training.jobs.contexts import try_model
from training.jobs.disclosure_report import Seen, disclosures, needs_every_hospital, over_network
from training.jobs.job import Job
from training.jobs.pipeline import RunResult, run_stages
from training.jobs.preflight import Preflight, preflight
from training.jobs.run_folder import RunFolder
from training.jobs.settings import TrackingConfig
from training.jobs.stages.base import Attest, Registered, Registrar, no_registry, unsigned
from training.jobs.tracking import refuse_missing, tracked
from training.progress import Progress
from training.rounds.server.metrics import MetricsLog

Say = Callable[[str], None]


def load_data(job: Job, job_file: Path) -> PreparedDataset:
    """The pictures of a job, decoded once."""
    return prepare(
        job.data,
        seed=job.seed,
        folder=job_file.resolve().parent,
        cache=cache_folder(),
        intersections=job.evaluation.intersections,
        rule=job.picture,
    )


def train(
    job: Job,
    job_file: Path,
    out: Path,
    console: Console | None = None,
    *,
    resume: bool,
    key: Path | None = None,
) -> RunResult:
    """Run a job from its file to its report; a job that only pre-trains has nothing to report on.

    Args:
        job: the job.
        job_file: where it was read; paths to pictures start from its folder.
        out: the folder for results.
        console: where progress is shown; by default on standard error.
        resume: whether a run that is there is continued.
        key: of the user who signs the metrics and registers, in PEM; by default that of
            `DERMFED_SIGNING_KEY`.
    """
    refuse_missing(job.tracking)
    attest = attester(key)
    folder = RunFolder(out)
    folder.claim(job, resume=resume)
    try_model(job)
    dataset = load_data(job, job_file)
    parts = ClientAppParts(job, dataset, ClientStore(folder.store), FolderReleases(folder.releases))
    progress = Progress(console or Console(stderr=True))
    engine = InProcessEngine(parts, folder.spool, progress=progress)
    try:
        with (
            open_registrar(job, key) as registrar,
            progress,
            MetricsLog(folder.metrics, progress) as metrics_log,
            tracked(job, out, metrics_log.log),
        ):
            result = run_stages(
                job, dataset, engine, metrics_log, out, registrar, attest=attest, notes=leak_notes(dataset)
            )
    finally:
        engine.close()
    data = report_data(result)
    if data.counts:
        write_text(folder.report, render_report(data))
    return result


def federate(
    job: Job,
    kit: Path | None,
    out: Path,
    console: Console,
    *,
    resume: bool,
    without: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a job at the hospitals of a federation; results stay at its coordinator and are fetched to `out`.

    Returns:
        How it ended: its `state`, and where that is not `done`, `error` and `text`.

    Raises:
        JobError: no kit is named.
    """
    if kit is None:
        raise JobError("--engine nvflare needs --kit: the admin's kit that `dermfed-node provision` made")
    from clients.federation.supervise import run_federated  # FLARE is in an extra of its own

    def say(text: str) -> None:
        console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    refuse_missing(job.tracking)
    untold = job.model_copy(update={"tracking": TrackingConfig()})  # of no concern to a hospital
    with tracked(job, out, say), console.status("") as shown:  # in place on a terminal, nothing elsewhere
        return run_federated(
            untold,
            kit,
            out,
            resume=resume,
            say=say,
            show=shown.update,
            without=without,
        )


def attester(key: Path | None = None) -> Attest:
    """Signs the figures that this run measures, with a private key; nothing without one.

    Args:
        key: its file, in PEM; by default that of `DERMFED_SIGNING_KEY`, if that is set.

    Raises:
        JobError: it cannot be read, or cannot sign.
    """
    if (file := signing_key(key)) is None:
        return unsigned
    from registry.attestation import Attester  # cryptography is an extra, and only this needs it

    try:
        return Attester(file, key_password())
    except KeyUnusable as error:
        raise JobError(f"the figures of this run cannot be signed: {error}") from error


@contextmanager
def open_registrar(job: Job, key: Path | None = None) -> Iterator[Registrar]:
    """The registry of a job that registers, opened before hours of training and not after them.

    Raises:
        RegistryError: it cannot be opened, or takes the key of a person that `DERMFED_SIGNING_KEY` is not.
    """
    registering = [stage for stage in job.stages if stage.stage == "register"]
    if not registering:
        yield no_registry
        return
    with Registry.open(signatory=key_signatory(key)) as registry:
        registry.require_person("added")
        if any(getattr(stage, "promote_to", None) is not None for stage in registering):
            registry.require_person("promoted")

        def register(bundles: Sequence[Bundle], promote_to: str | None, reason: str | None) -> Registered:
            versions = registry.add(bundles)
            numbers = tuple(version.number for version in versions)
            if promote_to is None:
                return Registered(numbers)
            try:
                registry.promote(versions[0].model, numbers, to=promote_to, reason=reason)
            except Refused as refusal:
                return Registered(numbers, f"{type(refusal).__name__}: {refusal}")
            return Registered(numbers)

        yield register


@dataclass(frozen=True)
class CheckedFederation:
    """What `check_federation` found.

    Attributes:
        hospitals: their names; they have the pictures.
        seen: who will see what of theirs.
        notes: what the user who runs the job should know before.
    """

    hospitals: Sequence[str]
    seen: Sequence[Seen]
    notes: Sequence[str] = ()


def check(job: Job, job_file: Path, say: Say, key: Path | None = None) -> Preflight:
    """Build a job's model, read its data, and look ahead at its run as far as that is possible without one.

    Args:
        job: the job.
        job_file: where it was read; paths to pictures start from its folder.
        say: receives a description of the model before the pictures are read, which takes longer, and of
            unused pictures where the job is refused.
        key: as for `train`.
    """
    refuse_missing(job.tracking)
    attester(key)
    with open_registrar(job, key):
        pass
    for line in try_model(job):
        say(line)
    dataset = load_data(job, job_file)
    with TemporaryDirectory(prefix="dermfed-check-") as folder:
        try:
            found = preflight(job, dataset, ClientStore(Path(folder)))
        except TrainingError:
            for line in dataset.report.left_out.lines():  # which may be why
                say(line)
            raise
    return found.with_notes(leak_notes(dataset))


def check_federation(job: Job, kit: Path) -> CheckedFederation:
    """Who will see what of a job over a federation; the pictures are the hospitals', and not looked at."""
    job, hospitals = over_network(job), open_kit(kit, "admin", "server").federation.names
    note = needs_every_hospital(job, hospitals)
    return CheckedFederation(hospitals, disclosures(job, hospitals), () if note is None else (note,))

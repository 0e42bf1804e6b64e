"""The folder of one run: its files, whether a job may use it, and the results of finished stages in it."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from registry.bundle.folder import read_bundle, write_bundle
from training.errors import CheckpointError
from training.files import write_text
from training.jobs.job import Job, read_job
from training.jobs.stages.base import BundleDraft, StageResult
from training.messages import named, prefixed
from training.models.encoder_files import AS_EVER, Preprocessing, said_of
from training.models.export import as_tensor
from training.rounds.requests import pack_blocks, read_blocks
from training.rounds.server.ask import Traffic
from training.tensor_file import read_tensors, write_tensors

CHECK = "check.json"  # what `--check` found; it stands beside a run


class RunFolder:
    """`--out` of one run.

    Args:
        path: the folder; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job_file = path / "job.resolved.yaml"
        self.metrics = path / "metrics.jsonl"
        self.report = path / "report.html"
        self.checkpoints = path / "checkpoints"
        self.store = path / "clients"
        self.releases = self.store / "releases"
        self.spool = path / "spool"

    def claim(self, job: Job, *, resume: bool) -> None:
        """Take the folder for a job: a new one, or one that the same job began.

        A run that stopped before its first checkpoint, as it does when its data cannot be used, has nothing
        to lose: its folder is taken like a new one.

        Raises:
            CheckpointError: when something else is there, or another job.
        """
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file; --out names a folder: choose another")
        others = [path for path in self.path.iterdir() if path.name != CHECK] if self.path.is_dir() else []
        if not self.job_file.exists() and others:
            raise CheckpointError(f"{self.path} is not empty and holds no run of ours; choose another --out")
        if not any(self.checkpoints.glob("*/round-*")) and not any(self.checkpoints.glob("*/outcome.*")):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            shutil.rmtree(self.store, ignore_errors=True)
            write_text(self.job_file, yaml.safe_dump(job.resolved(), sort_keys=False, allow_unicode=True))
            return
        if not resume:
            raise CheckpointError(
                f"{self.path} holds a run already; continue it with --resume, or choose another --out"
            )
        changed = differences(read_job(self.job_file), job)
        if changed:
            raise CheckpointError(
                f"{self.path} holds a run of another job: {', '.join(changed[:5])} differ; "
                "resume with the job file it was started with, or choose another --out"
            )


def differences(old: Job, new: Job) -> list[str]:
    """The paths of settings that differ between two jobs and would change the weights."""
    if old.digest == new.digest:
        return []
    before, after = flatten(old.resolved()), flatten(new.resolved())
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def flatten(value: object, path: str = "") -> dict[str, object]:
    """Nested settings as dotted paths."""
    items: list[tuple[object, object]]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return {path: value}
    return {
        key: leaf
        for step, inner in items
        for key, leaf in flatten(inner, f"{path}.{step}" if path else f"{step}").items()
    }


OUTCOME = "outcome.safetensors"


@dataclass(frozen=True)
class FinishedStage:
    """The result of a finished stage, with its duration and the length of the log.

    Attributes:
        outcome: what it left.
        seconds: how long it took.
        log_bytes: the length of `metrics.jsonl` when it was done.
    """

    outcome: StageResult
    seconds: float
    log_bytes: int


def save_finished(folder: Path, job: str, finished: FinishedStage, shown: Preprocessing = AS_EVER) -> None:
    """Write what a stage left: the bundles first, the file that names them last.

    Args:
        folder: of the stage.
        job: its digest.
        finished: what it left.
        shown: how its models are shown pictures, for a job that begins with one of them.

    Raises:
        CheckpointError: when the disk does not take it.
    """
    outcome = finished.outcome
    tensors = prefixed(pack_blocks(outcome.test), "test/")
    for place, weights in enumerate(outcome.models.values()):  # the global model is the first
        tensors.update(prefixed(weights, f"model-{place}/"))
    for name, folds in outcome.folds.items():
        for fold, weights in enumerate(folds):
            tensors.update(prefixed(weights, f"fold-{list(outcome.models).index(name)}-{fold}/"))
    for place, bundle in enumerate(outcome.bundles.values()):
        write_bundle(folder / f"bundle-{place}", bundle.manifest, bundle.graph)
        tensors |= {f"graph-{place}-{fold}": as_tensor(graph) for fold, graph in enumerate(bundle.folds)}
    header = {
        "seconds": finished.seconds,
        "log_bytes": finished.log_bytes,
        "models": list(outcome.models),
        "bundles": list(outcome.bundles),
        "folds": {name: len(folds) for name, folds in outcome.folds.items()},
        "graphs": [len(bundle.folds) for bundle in outcome.bundles.values()],
        "rounds": outcome.rounds,
        "traffic": asdict(outcome.traffic),
        "facts": outcome.facts,
        "tests_local_models": outcome.tests_local_models,
        **said_of(shown),
    }
    write_tensors(folder / OUTCOME, job, header, tensors)


def load_finished(folder: Path, job: str) -> FinishedStage | None:
    """What a stage left; None when it has not finished.

    Raises:
        CheckpointError: when it is damaged or belongs to another job.
    """
    path = folder / OUTCOME
    if not path.exists():
        return None
    header, tensors = read_tensors(path, job)
    bundles = {}
    for place, name in enumerate(header["bundles"]):
        bundle = read_bundle(folder / f"bundle-{place}")
        folds = [tensors[f"graph-{place}-{fold}"] for fold in range(header["graphs"][place])]
        bundles[name] = BundleDraft(
            bundle.manifest, bundle.model, tuple(bytes(each.numpy()) for each in folds)
        )
    outcome = StageResult(
        models={name: named(tensors, f"model-{place}/") for place, name in enumerate(header["models"])},
        bundles=bundles,
        rounds=header["rounds"],
        traffic=Traffic(**header["traffic"]),
        test=read_blocks(named(tensors, "test/")),
        facts=header["facts"],
        tests_local_models=header["tests_local_models"],
        folds={
            name: tuple(
                named(tensors, f"fold-{header['models'].index(name)}-{fold}/") for fold in range(number)
            )
            for name, number in header["folds"].items()
        },
    )
    return FinishedStage(outcome, header["seconds"], header["log_bytes"])

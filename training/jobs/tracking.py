"""Curves of a run in TensorBoard and MLflow; a thread follows `metrics.jsonl`, which the run never waits for.

What fails is tried again; it is logged once, and stops nothing. No name of a hospital is sent: who answered
is a number.
"""

import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from training.errors import JobError
from training.files import write_text
from training.jobs.job import Job
from training.jobs.run_folder import RunFolder
from training.jobs.settings import TrackingConfig
from training.privacy.noisy_updates import EPSILON

WHO = "answered"  # the curve that every round has
CURVES = ("accuracy", "balanced_accuracy", "auroc")
TEST_FIGURES = (*CURVES, "macro_f1", "ece", "aurc")


def figures_of_round(line: Mapping[str, Any]) -> dict[str, float]:
    """The curves' next points, by name; what is undefined is absent."""
    found: dict[str, Any] = {
        "loss": line["loss"],
        "asked": len(line["asked"]),
        WHO: len(line["answered"]),
        **{name: line["metrics"].get(name) for name in CURVES},
        **by_subgroup(line["by_subgroup"], CURVES),
        **{name: line.get(name) for name in ("bytes_up", "bytes_down", "seconds")},
    }
    models = line["models"]
    if len(models) > 1:
        found |= {f"loss/{name}": model["loss"] for name, model in models.items()}
    spent = [
        scalars[EPSILON]
        for model in models.values()
        for scalars in model.get("scalars", {}).values()
        if EPSILON in scalars
    ]
    return numbers({**found, "epsilon": max(spent, default=None)})


def figures_of_test(summary: Mapping[str, Any]) -> dict[str, float]:
    """The test figures of the final models, by name."""
    test = summary.get("test")
    if not test:
        return {}
    return numbers(
        {
            **{name: test.get(name) for name in TEST_FIGURES},
            **by_subgroup(test["by_subgroup"], TEST_FIGURES),
            **{f"fairness/{name}": value for name, value in test.get("fairness", {}).items()},
        }
    )


def by_subgroup(rows: Mapping[str, Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Figures of subgroups under `<figure>/<subgroup>`."""
    return {f"{name}/{place}": row.get(name) for place, row in rows.items() for name in names}


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers."""
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


class Tracker(Protocol):
    """Takes the points of a run's curves, each once."""

    name: str

    def open(self) -> Mapping[str, int]:
        """Get ready; the last round that it knows of each stage, from earlier stays in the run."""

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """Take the points of one round, so that they can be seen."""

    def close(self, *, finished: bool) -> None:
        """The end of this stay in the run, or of the run itself."""


LOOK = 1.0  # seconds between looks at the log
PAUSE = 30.0  # seconds before a tracker that failed is tried again
PATIENCE = 60.0  # seconds that the end of a run waits for what is still to be logged
TEST = "test"  # the stage under which the final figures are drawn


@dataclass
class Followed:
    """What one tracker has been sent.

    Attributes:
        tracker: where rounds are logged to.
        done: the last round of each stage that was logged; None while it is not open.
        retry_at: seconds on the clock before which it is left alone.
        warned: whether its failure was logged.
    """

    tracker: Tracker
    done: dict[str, int] | None = None
    retry_at: float = 0.0
    warned: bool = False


class Follower:
    """Follows one run.

    Args:
        metrics: `metrics.jsonl`; it need not be there yet.
        summary: `summary.json`, which is there when the run has ended.
        trackers: where rounds are logged to.
        log: takes one log line for the user.
        clock: seconds, rising.
    """

    def __init__(
        self,
        metrics: Path,
        summary: Path,
        trackers: Sequence[Tracker],
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._summary = summary
        self._followed = [Followed(tracker) for tracker in trackers]
        self._log = log
        self._clock = clock
        self._read: tuple[tuple[int, int], list[dict[str, Any]]] = ((0, 0), [])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="tracking")

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self, seconds: float = PATIENCE) -> None:
        """Log what is left, as far as there is time for it."""
        self._ended.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._log("tracking is not complete; the rest is logged when the run is continued with --resume")

    def _follow(self) -> None:
        while not self._ended.wait(LOOK):
            self.look()
        for each in self._followed:
            each.retry_at = 0.0
        self.look()
        for each in self._followed:
            self._try(each, self._close)

    def look(self) -> None:
        """Log what is new to every tracker."""
        if self._metrics.exists():
            for each in self._followed:
                if self._clock() >= each.retry_at:
                    self._try(each, self._log_new_rounds)

    def _try(self, each: Followed, work: Callable[[Followed], None]) -> None:
        try:
            work(each)
        except Exception as error:  # noqa: BLE001 - a tracker is another's code, and no reason to end a run
            each.done, each.retry_at = None, self._clock() + PAUSE
            if not each.warned:
                each.warned = True
                self._log(
                    f"tracking with {each.tracker.name} fails: {type(error).__name__}: {error}; the run "
                    "goes on, and it is tried again"
                )

    def _log_new_rounds(self, each: Followed) -> None:
        if each.done is None:
            each.done = dict(each.tracker.open())
        for line in self._lines():
            if line["round"] > each.done.get(line["stage"], 0):
                each.tracker.log(line["stage"], line["round"], figures_of_round(line))
                each.done[line["stage"]] = line["round"]

    def _close(self, each: Followed) -> None:
        if each.done is None:
            return
        finished = self._summary.exists()
        figures = figures_of_test(json.loads(self._summary.read_text())) if finished else {}
        if figures and not each.done.get(TEST, 0):
            each.tracker.log(TEST, 1, figures)
        each.tracker.close(finished=finished)

    def _lines(self) -> list[dict[str, Any]]:
        """The whole lines of the log, read again when it has changed."""
        stat = self._metrics.stat()
        changed = (stat.st_size, stat.st_mtime_ns)
        if changed != self._read[0]:
            content = self._metrics.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            self._read = (changed, [json.loads(line) for line in whole.splitlines()])
        return self._read[1]


TEST_FIGURE = "accuracy"  # and the one that tests have


class TensorBoard:
    """Writes event files.

    Args:
        folder: where; `tensorboard --logdir` shows it.
        run: called when it is opened, to remove what is there of another run.
    """

    name = "tensorboard"

    def __init__(self, folder: Path, run: Callable[[], str]) -> None:
        self._folder = folder
        self._run = run
        self._writers: dict[str, Any] = {}

    def open(self) -> Mapping[str, int]:
        """The last round in each stage's event files."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self._run()
        done: dict[str, int] = {}
        for stage in sorted(path for path in self._folder.glob("*") if path.is_dir()):
            events = EventAccumulator(str(stage), size_guidance={"scalars": 0}).Reload()
            for tag in {WHO, TEST_FIGURE} & set(events.Tags()["scalars"]):
                done[stage.name] = max(
                    [done.get(stage.name, 0), *(each.step for each in events.Scalars(tag))]
                )
        return done

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """One point of each curve, on disk before it returns."""
        from torch.utils.tensorboard.writer import SummaryWriter

        if stage not in self._writers:
            self._writers[stage] = SummaryWriter(str(self._folder / stage))
        writer = self._writers[stage]
        # The curve by which `open` finds what is there comes last, so that a round counts when it is whole.
        for name in sorted(figures, key=lambda name: name in (WHO, TEST_FIGURE)):
            writer.add_scalar(name, figures[name], round_)
        writer.flush()

    def close(self, *, finished: bool) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # whoever follows the run tries again
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
EXPERIMENT = "dermfed"  # where MLFLOW_EXPERIMENT_NAME names no other
TAG = "dermfed.run"
STRANGE = re.compile(r"[^\w\-./: ]")  # what MLflow has no room for in a name


class MLflow:
    """Logs to an MLflow store: one run for each run of ours, continued when that is resumed.

    Sent are the job's name, recipe, seed and digest, the version, and the metrics. MLflow reports its use to
    its makers by default; that is switched off here.

    Args:
        uri: the store's address.
        job: the job.
        run: gives what this run is called, the same whenever it is continued.
    """

    name = "mlflow"

    def __init__(self, uri: str, job: Job, run: Callable[[], str]) -> None:
        self._uri = uri
        self._job = job
        self._run = run
        self._client: Any = None
        self._id = ""

    def open(self) -> Mapping[str, int]:
        """Find the run, or begin it; the last round of each stage that is there."""
        run = self._run()
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._client = client = MlflowClient(self._uri)
        named = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        experiment = client.get_experiment_by_name(named)
        place = experiment.experiment_id if experiment else client.create_experiment(named)
        known = client.search_runs([place], f"tags.`{TAG}` = '{run}'", max_results=1)
        if known:
            self._id = known[0].info.run_id
            client.update_run(self._id, status="RUNNING")
            return self._rounds(known[0].data.metrics)
        self._id = client.create_run(place, run_name=self._job.name, tags={TAG: run}).info.run_id
        facts = {
            "job": self._job.name,
            "recipe": self._job.about.system if self._job.about else self._job.name,
            "seed": f"{self._job.seed}",
            "digest": self._job.digest,
            "dermfed": version("dermfed"),
        }
        for name, value in facts.items():
            client.log_param(self._id, name, value)
        return {}

    def log(self, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        """One point of each curve, all in one message."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        points = [
            Metric(STRANGE.sub("_", f"{stage}/{name}"), value, now, round_) for name, value in figures.items()
        ]
        self._client.log_batch(self._id, metrics=points)

    def close(self, *, finished: bool) -> None:
        """Mark the run as ended, or as left for now."""
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")

    def _rounds(self, metrics: Mapping[str, float]) -> dict[str, int]:
        """The last round there of each stage."""
        done: dict[str, int] = {}
        for key in metrics:
            stage, _, name = key.partition("/")
            if name in (WHO, "accuracy"):
                steps = [point.step for point in self._client.get_metric_history(self._id, key)]
                done[stage] = max([done.get(stage, 0), *steps])
        return done


RECORD, EVENTS, STORE = "tracking.json", "tensorboard", "mlflow.db"


def refuse_missing(tracking: TrackingConfig) -> None:
    """Refuse trackers that are not installed, before hours of training and not after them.

    Raises:
        JobError: saying what to install.
    """
    for name, asked in tracking.model_dump().items():
        if asked and find_spec(name) is None:
            raise JobError(
                f"tracking.{name} needs {name}, which is not installed; install it with `pip install "
                f"'dermfed[{name}]'`, or leave it out"
            )


@contextmanager
def tracked(job: Job, out: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Log the run in `out` to the job's trackers while it lasts; whatever fails there, the run goes on."""
    trackers = trackers_of(job, out)
    if not trackers:
        yield
        return
    follower = Follower(RunFolder(out).metrics, out / "summary.json", trackers, log)
    follower.start()
    try:
        yield
    finally:
        follower.close()


def trackers_of(job: Job, out: Path) -> list[Tracker]:
    """The trackers that a job names; they touch nothing until they are opened, when the run has begun."""
    run = partial(run_name, job, out)
    trackers: list[Tracker] = []
    if job.tracking.tensorboard:
        trackers.append(TensorBoard(out / EVENTS, run))
    if job.tracking.mlflow:
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{out.absolute().parent / STORE}"
        trackers.append(MLflow(uri, job, run))
    return trackers


def run_name(job: Job, out: Path) -> str:
    """What the run in `out` is called elsewhere; one of another job that was there before is forgotten."""
    path = out / RECORD
    if path.exists():
        record = json.loads(path.read_text())
        if record["digest"] == job.digest:
            return str(record["run"])
    shutil.rmtree(out / EVENTS, ignore_errors=True)
    name = token_hex(8)
    write_text(path, json.dumps({"run": name, "digest": job.digest}) + "\n")
    return name

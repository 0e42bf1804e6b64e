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
from dataclasses import dataclass, field
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
from training.jobs.settings import MLflowConfig, TrackingConfig
from training.privacy.dp.updates import EPSILON

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
class Cursor:
    """One tracker's position in the log.

    Attributes:
        tracker: where rounds are logged to.
        done: the last round of each stage that was logged; None while it is not open.
        offset: bytes of the log that were read.
        retry_at: seconds on the clock before which it is left alone.
        warned: whether its failure was logged.
    """

    tracker: Tracker
    done: dict[str, int] | None = None
    offset: int = 0
    retry_at: float = 0.0
    warned: bool = field(default=False)


class Follower:
    """Follows one run.

    Args:
        metrics: `metrics.jsonl`; it need not be there yet.
        summary: `summary.json`, which is there when the run has ended.
        trackers: where rounds are logged to.
        log: takes one log line for whoever watches.
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
        self._cursors = [Cursor(tracker) for tracker in trackers]
        self._log = log
        self._clock = clock
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
            self._log(
                "tracking has not told everything; the rest is told when the run is taken up with --resume"
            )

    def _follow(self) -> None:
        while not self._ended.wait(LOOK):
            self.look()
        for cursor in self._cursors:
            cursor.retry_at = 0.0
        self.look()
        for cursor in self._cursors:
            self._try(cursor, self._close)

    def look(self) -> None:
        """Log what is new to every tracker."""
        if self._metrics.exists():
            for cursor in self._cursors:
                if self._clock() >= cursor.retry_at:
                    self._try(cursor, self._log_new_rounds)

    def _try(self, cursor: Cursor, work: Callable[[Cursor], None]) -> None:
        try:
            work(cursor)
        except Exception as error:  # noqa: BLE001 - a tracker is somebody else's, and no reason to end a run
            cursor.done, cursor.offset, cursor.retry_at = None, 0, self._clock() + PAUSE
            if not cursor.warned:
                cursor.warned = True
                self._log(
                    f"tracking with {cursor.tracker.name} fails: {type(error).__name__}: {error}; the run "
                    "goes on, and it is tried again"
                )

    def _log_new_rounds(self, cursor: Cursor) -> None:
        if cursor.done is None:
            cursor.done = dict(cursor.tracker.open())
        for line in self._new_lines(cursor):
            self._log_once(cursor, line["stage"], line["round"], figures_of_round(line))

    def _close(self, cursor: Cursor) -> None:
        if cursor.done is None:
            return
        finished = self._summary.exists()
        if finished:
            self._log_once(cursor, TEST, 1, figures_of_test(json.loads(self._summary.read_text())))
        cursor.tracker.close(finished=finished)

    def _log_once(self, cursor: Cursor, stage: str, round_: int, figures: Mapping[str, float]) -> None:
        assert cursor.done is not None, "a tracker is opened before anything is logged to it"
        if figures and round_ > cursor.done.get(stage, 0):
            cursor.tracker.log(stage, round_, figures)
            cursor.done[stage] = round_

    def _new_lines(self, cursor: Cursor) -> list[dict[str, Any]]:
        """Whole lines since the last look; from the start where the log was cut, as when a run is resumed."""
        with self._metrics.open("rb") as file:
            if cursor.offset and (
                self._metrics.stat().st_size < cursor.offset or not ends_line(file, cursor.offset)
            ):
                cursor.offset = 0
            file.seek(cursor.offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        cursor.offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def ends_line(file: Any, offset: int) -> bool:
    """Whether a line ends before this place."""
    file.seek(offset - 1)
    return bool(file.read(1) == b"\n")


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
TAG = "dermfed.run"
STRANGE = re.compile(r"[^\w\-./: ]")  # what MLflow has no room for in a name


class MLflow:
    """Logs to an MLflow store: one run for each run of ours, continued when that is resumed.

    Sent are the job's name, recipe, seed and digest, the version, and the metrics. MLflow reports its use to
    its makers by default; that is switched off here.

    Args:
        config: which.
        uri: the store's address.
        job: the job.
        run: gives what this run is called, the same whenever it is taken up again.
    """

    name = "mlflow"

    def __init__(self, config: MLflowConfig, uri: str, job: Job, run: Callable[[], str]) -> None:
        self._config = config
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
        experiment = client.get_experiment_by_name(self._config.experiment)
        place = experiment.experiment_id if experiment else client.create_experiment(self._config.experiment)
        known = client.search_runs([place], f"tags.`{TAG}` = '{run}'", max_results=1)
        if known:
            self._id = known[0].info.run_id
            client.update_run(self._id, status="RUNNING")
            return self._rounds(known[0].data.metrics)
        begun = client.create_run(place, run_name=self._job.name, tags={TAG: run})
        self._id = begun.info.run_id
        for name, value in self._facts().items():
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

    def _facts(self) -> dict[str, str]:
        """What the run is of."""
        recipe = self._job.about.system if self._job.about else self._job.name
        return {
            "job": self._job.name,
            "recipe": recipe,
            "seed": f"{self._job.seed}",
            "digest": self._job.digest,
            "dermfed": version("dermfed"),
        }


RECORD, EVENTS, STORE = "tracking.json", "tensorboard", "mlflow.db"


def refuse_missing(tracking: TrackingConfig) -> None:
    """Refuse trackers that are not installed, before hours of training and not after them.

    Raises:
        JobError: saying what to install.
    """
    wanted = {"tensorboard": tracking.tensorboard, "mlflow": tracking.mlflow is not None}
    for name, asked in wanted.items():
        if asked and find_spec(name) is None:
            raise JobError(
                f"tracking.{name} needs {name}, which is not installed; install it with `pip install "
                f"'dermfed[{name}]'`, or leave it out"
            )


@contextmanager
def tracked(job: Job, out: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Log the run in `out` to the job's trackers while it lasts; whatever fails there, the run goes on."""
    tracking = job.tracking
    if not tracking.tensorboard and tracking.mlflow is None:
        yield
        return
    follower = Follower(RunFolder(out).metrics, out / "summary.json", trackers_of(job, out), log)
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
    if job.tracking.mlflow is not None:
        uri = job.tracking.mlflow.uri or f"sqlite:///{out.absolute().parent / STORE}"
        trackers.append(MLflow(job.tracking.mlflow, uri, job, run))
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

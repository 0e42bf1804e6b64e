"""The MLflow tracker: one MLflow run for each run of ours, continued when that is resumed.

What is sent: the job's name, recipe, seed and digest, the version, and the figures of `figures.py`. MLflow
reports its use to its makers by default; that is switched off here.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from training.jobs.job import Job
from training.jobs.settings import MLflowConfig
from training.jobs.tracking.figures import WHO

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # whoever follows the run tries again
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
TAG = "dermfed.run"
STRANGE = re.compile(r"[^\w\-./: ]")  # what MLflow has no room for in a name


class MLflow:
    """Logs to an MLflow store; a `training.jobs.tracking.follower.Tracker`.

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

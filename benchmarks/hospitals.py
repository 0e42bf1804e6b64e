"""A job that is timed on this machine, and over real processes with a node for each hospital."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from loopback.federated import ADMIN, ROOT, SERVER, Federated


def write_job(
    folder: Path,
    manifests: Sequence[Path],
    *,
    size: int,
    model: Mapping[str, Any],
    objective: Mapping[str, Any],
    rounds: int,
    engine: Mapping[str, Any],
    stage: Mapping[str, Any] | None = None,
) -> Path:
    """A job of federated averaging, without evaluation between its rounds unless `stage` says more."""
    job = {
        "name": "federation",
        "data": {
            "manifest": [str(path) for path in manifests],
            "label_map": "malignancy",
            "image_size": size,
            "clients": {"by": "manifest"},
        },
        "model": dict(model),
        "engine": {"device": "cpu", "threads_per_client": 1, **engine},
        "stages": [
            {
                "stage": "federate",
                "rounds": rounds,
                "evaluate_on": None,
                "objective": {"name": "supervised", "sampling": "uniform", **objective},
                "aggregator": {"name": "fedavg"},
                **(stage or {}),
            }
        ],
    }
    path = folder / "federation.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


def run_command(job: Path, out: Path) -> list[str]:
    """Runs a job on this machine."""
    return [sys.executable, str(ROOT / "training" / "run.py"), str(job), "--out", str(out)]


def environment() -> dict[str, str]:
    """Ours, with this checkout first."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


LOOK = 0.005  # seconds between looks at the log


@dataclass(frozen=True)
class Times:
    """A run's times, in seconds.

    Attributes:
        rounds: from the end of each round to that of the next; the first round is in none.
        whole: from the command to its end.
    """

    rounds: tuple[float, ...]
    whole: float


def timed(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    ends: Callable[[], Sequence[float]] | None = None,
    metrics: Callable[[], Path | None] = lambda: None,
    folder: Path | None = None,
) -> Times:
    """Run a command and time its rounds.

    Args:
        command: to run.
        environment: of it.
        log: takes what it prints.
        ends: tells when rounds ended, once the command has; else `metrics` is watched.
        metrics: the file that gets a line at the end of each round, once it is there.
        folder: where it is run.
    """
    started = time.time()
    with log.open("w") as out:
        process = subprocess.Popen(command, env=dict(environment), cwd=folder, stdout=out, stderr=out)
        seen = watched(process, metrics) if ends is None else []
        process.wait()
    whole = time.time() - started
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()[-4000:]}")
    seen = seen if ends is None else list(ends())
    return Times(tuple(later - earlier for earlier, later in pairwise(seen)), whole)


def watched(process: "subprocess.Popen[bytes]", metrics: Callable[[], Path | None]) -> list[float]:
    """When each line came."""
    seen: list[float] = []
    path = None
    while process.poll() is None:
        path = path or metrics()
        lines = path.read_bytes().count(b"\n") if path and path.exists() else 0
        seen += [time.time()] * (lines - len(seen))
        time.sleep(LOOK)
    return seen


Carried = tuple[Times, list[dict[str, Any]]]
"""The times of a run's rounds, and the lines of its log."""


class Wire:
    """A job, and the federation that it is for.

    Args:
        folder: an empty one.
        names: of the hospitals.
        pictures: of the first; each further one has one more, since the number is also the seed.
        job: what `write_job` needs beside the manifests.
    """

    def __init__(self, folder: Path, names: Sequence[str], pictures: int, job: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._net = Federated(
            folder, {name: pictures + place for place, name in enumerate(names)}, size=job["size"]
        )
        self.job_file = write_job(folder, [folder / f"{name}.csv" for name in names], **job)
        self._runs = 0

    @contextmanager
    def open(self) -> Iterator["Wire"]:
        """All nodes are up while it lasts."""
        self._net.start_all()
        try:
            yield self
        finally:
            self._net.stop()

    def here(self) -> Carried:
        """The job in one process of this machine, or as many workers as it says."""
        out = self._out()
        return self._timed(out, [], lambda: out / "metrics.jsonl")

    def there(self) -> Carried:
        """The job at the hospitals."""
        runs = self._net.kits / SERVER / "private" / "runs"
        before = set(runs.glob("*"))
        return self._timed(
            self._out(),
            ["--engine", "nvflare", "--kit", str(self._net.kits / ADMIN)],
            lambda: next((run / "metrics.jsonl" for run in runs.glob("*") if run not in before), None),
        )

    def _timed(self, out: Path, options: Sequence[str], metrics: Callable[[], Path | None]) -> Carried:
        command = [*run_command(self.job_file, out), *options]
        times = timed(command, self._net.environment, out.with_suffix(".log"), metrics=metrics)
        log = (out / "metrics.jsonl").read_text().splitlines()
        return times, [json.loads(line) for line in log]

    def _out(self) -> Path:
        self._runs += 1
        return self._net.folder / f"run-{self._runs}"

"""A federation on this machine: hospitals with drawn pictures, kits, a process for each node."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from services import free_port

from clients.data.adapters.table import make_adapter
from clients.data.manifests.csv_file import write_manifest
from clients.data.manifests.manifest import Manifest
from clients.federation.kit import Federation
from clients.federation.provision import provision

ROOT = Path(__file__).resolve().parents[1]
SERVER = "server"


def draw(folder: Path, name: str, pictures: int, size: int, seed: int) -> Path:
    """A hospital's pictures; returns its manifest, whose lesions and patients are nobody else's."""
    adapter = make_adapter("synthetic", {"pictures": pictures, "size": size, "seed": seed})
    made = adapter.manifest(folder / f"{name}-pictures")
    rows = [
        replace(
            row,
            image=str(made.folder / row.image),
            lesion_id=f"{name} {row.lesion_id}",
            patient_id=f"{name} {row.patient_id}",
        )
        for row in made.rows
    ]
    path = folder / f"{name}.csv"
    write_manifest(Manifest.of(rows, folder), path)
    return path


def write_job(
    folder: Path,
    manifests: Sequence[Path],
    *,
    size: int,
    model: Mapping[str, Any],
    objective: Mapping[str, Any],
    rounds: int,
    engine: Mapping[str, Any],
    name: str = "federation",
    stage: Mapping[str, Any] | None = None,
) -> Path:
    """A job of federated averaging, without evaluation between its rounds unless `stage` says more."""
    job = {
        "name": name,
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
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


class Hospitals:
    """A coordinator and hospitals on loopback, each with its kit.

    Args:
        folder: of everything.
        manifests: of each hospital, by name.
    """

    def __init__(self, folder: Path, manifests: Mapping[str, Path]) -> None:
        self.folder = folder
        self._manifests = manifests
        self.kits = folder / "kits"
        federation = {
            "name": "speed",
            "coordinator": {"host": "localhost", "port": free_port(), "also": ["127.0.0.1"]},
            "hospitals": [{"name": name} for name in manifests],
        }
        provision(Federation.model_validate(federation), folder, self.kits)

    @contextmanager
    def running(self) -> Iterator[None]:
        """All nodes, while it lasts."""
        nodes = [
            self._start(SERVER, []),
            *(self._start(n, ["--data", str(d)]) for n, d in self._manifests.items()),
        ]
        try:
            yield
        finally:
            for node in nodes:
                node.send_signal(signal.SIGTERM)
            for node in nodes:
                node.wait(120)

    def run_command(self, job: Path, out: Path) -> list[str]:
        """Runs a job at the hospitals."""
        return [*run_command(job, out), "--engine", "nvflare", "--kit", str(self.kits / "admin")]

    def next_log(self) -> Callable[[], Path | None]:
        """Tells the log of the run that is sent next, once it is there."""
        runs = self.kits / SERVER / "private" / "runs"
        before = set(runs.glob("*"))
        return lambda: next((run / "metrics.jsonl" for run in runs.glob("*") if run not in before), None)

    def _start(self, name: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
        quiet: Mapping[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        command = [
            sys.executable,
            "-m",
            "clients.node.cli",
            "start",
            "--kit",
            str(self.kits / name),
            *options,
        ]
        return subprocess.Popen(command, env=environment(), cwd=ROOT, **quiet)


def run_command(job: Path, out: Path) -> list[str]:
    """Runs a job on this machine."""
    return [sys.executable, str(ROOT / "training" / "run.py"), str(job), "--out", str(out)]


def environment() -> dict[str, str]:
    """Ours, with this checkout first."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def lines(metrics: Path) -> list[dict[str, Any]]:
    """A run's log."""
    return [json.loads(line) for line in metrics.read_text().splitlines()]


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
        pictures: of each.
        job: what `hospitals.write_job` needs beside the manifests.
    """

    def __init__(self, folder: Path, names: Sequence[str], pictures: int, job: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        manifests = {name: draw(folder, name, pictures, job["size"], seed) for seed, name in enumerate(names)}
        self.job_file = write_job(folder, list(manifests.values()), **job)
        self._hospitals = Hospitals(folder, manifests)
        self._runs = 0

    @contextmanager
    def open(self) -> Iterator["Wire"]:
        """All nodes are up while it lasts."""
        with self._hospitals.running():
            yield self

    def here(self) -> Carried:
        """The job in one process of this machine, or as many workers as it says."""
        out = self._out()
        times = timed(
            run_command(self.job_file, out),
            environment(),
            out.with_suffix(".log"),
            metrics=lambda: out / "metrics.jsonl",
        )
        return times, lines(out / "metrics.jsonl")

    def there(self) -> Carried:
        """The job at the hospitals."""
        out = self._out()
        times = timed(
            self._hospitals.run_command(self.job_file, out),
            environment(),
            out.with_suffix(".log"),
            metrics=self._hospitals.next_log(),
        )
        return times, lines(out / "metrics.jsonl")

    def _out(self) -> Path:
        self._runs += 1
        return self._folder / f"run-{self._runs}"

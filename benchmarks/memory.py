"""Peak memory of the coordinator against the number of clients.

One job in a process of its own for each size: the whole of `run_stages` for a stage of federated rounds with
evaluation after each round and the final test figures with bootstrap replicates. Clients run in the same
process, one after another; each holds the same few small pictures, so the data take no more memory for a
thousand clients than for ten. Updates beyond `--in-memory` wait on disk, as they do in a large federation.

The figure is VmHWM of /proc/self/status: the largest resident set that the process ever had, libraries
included. It should not grow with the clients. Linux only.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from noise_pictures import NoisePictures
from rich.console import Console
from tables import print_conditions, print_table

from clients.store import ClientStore
from training.engines.in_process import InProcessEngine, SiteParts
from training.job import Job
from training.journal import Journal
from training.pipeline import run_stages

MIB = 1 << 20
PICTURES, SIZE = 20, 16  # of each client in each split; pixels
CHANNELS = [16, 32, 64, 128]
REPLICATES = 20


def describe_job(rounds: int, aggregator: str) -> Job:
    """A narrow ResNet-18 on small pictures."""
    stage = {
        "stage": "federate",
        "rounds": rounds,
        "objective": {"name": "supervised", "batch_size": PICTURES},
        "aggregator": {"name": aggregator},
    }
    return Job.model_validate(
        {
            "name": "memory",
            "data": {"adapter": "noise", "image_size": SIZE},
            "model": {"name": "resnet18", "options": {"channels": CHANNELS}},
            "engine": {"device": "cpu"},
            "evaluation": {"replicates": REPLICATES},
            "stages": [stage],
        }
    )


def peak_bytes() -> int:
    """The largest resident set that this process ever had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def measure(clients: int, rounds: int, aggregator: str, in_memory: int) -> dict[str, Any]:
    """Run the job here: peak memory after the imports and at the end, and what one client sends."""
    job = describe_job(rounds, aggregator)
    dataset = NoisePictures(clients, PICTURES, SIZE, splits=("train", "validation", "test"))
    imported, started = peak_bytes(), perf_counter()
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        parts = SiteParts(job, dataset, ClientStore(folder / "clients"))
        engine = InProcessEngine(parts, folder / "spool", memory=in_memory)
        with Journal(folder / "metrics.jsonl", Console(quiet=True)) as journal:
            result = run_stages(job, dataset, engine, journal, folder)
        engine.close()
    stage = result.summary["stages"][0]
    return {
        "imported": imported,
        "peak": peak_bytes(),
        "seconds": perf_counter() - started,
        "sent": stage["bytes_up"],
    }


def measure_apart(clients: int, rounds: int, aggregator: str, in_memory: float) -> dict[str, Any]:
    """`measure` in a fresh process: a peak never falls again."""
    command = [sys.executable, __file__, "--alone", "--clients", str(clients), "--rounds", str(rounds)]
    command += ["--aggregator", aggregator, "--in-memory", str(in_memory)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def print_peaks(peaks: dict[int, dict[str, Any]]) -> None:
    """One row per number of clients, against the first."""
    first = next(iter(peaks.values()))
    rows = [
        (
            f"{clients:,}",
            f"{found['sent'] / MIB:,.0f}",
            f"{found['imported'] / MIB:,.0f}",
            f"{found['peak'] / MIB:,.0f}",
            f"{found['peak'] / first['peak']:.3f}",
            f"{found['seconds']:,.0f}",
        )
        for clients, found in peaks.items()
    ]
    least = min(peaks)
    header = (
        "clients",
        "sent by clients (MiB)",
        "after the imports (MiB)",
        "peak (MiB)",
        f"peak / peak of {least}",
        "seconds",
    )
    print_table(header, rows)


def main(
    clients: Annotated[list[int] | None, typer.Option(help="How many clients; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each job.")] = 2,
    aggregator: Annotated[str, typer.Option(help="fedavg, fedauto, ...")] = "fedauto",
    in_memory: Annotated[float, typer.Option(help="MiB of updates that may wait in memory.")] = 16,
    alone: Annotated[bool, typer.Option("--alone", help="Measure the first size here; print JSON.")] = False,
) -> None:
    """Measure the coordinator's peak memory for several numbers of clients."""
    sizes = clients or [10, 100, 1000]
    if alone:
        print(json.dumps(measure(sizes[0], rounds, aggregator, int(in_memory * MIB))))
        return
    print_conditions(
        "Peak memory of the coordinator",
        {
            "model": f"resnet18 with channels {CHANNELS}, {SIZE} x {SIZE} pixels",
            "each client": f"{PICTURES} pictures in each of train, validation and test",
            "job": f"{rounds} rounds of {aggregator}, each evaluated; test with {REPLICATES} replicates",
            "updates in memory": f"{in_memory:g} MiB, the rest waits on disk",
        },
    )
    print_peaks({size: measure_apart(size, rounds, aggregator, in_memory) for size in sizes})


if __name__ == "__main__":
    typer.run(main)

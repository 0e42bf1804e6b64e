"""Peak memory of the coordinator against the number of clients.

One job in a process of its own for each size: the whole of `run_stages` for a stage of federated rounds with
evaluation after each round and the final test figures. Clients run in the same
process, one after another; each holds the same few small pictures, so the data take no more memory for a
thousand clients than for ten. Updates beyond `--in-memory` wait on disk, as they do in a large federation.

The figure is VmHWM of /proc/self/status: the largest resident set that the process ever had, libraries
included. It should not grow with the clients. Linux only.

With `--job pretraining`: memory against rounds, for a hundred clients of whom ten take part in each. Once
contrastive (MoCo that shares features), where the server holds the bank that each client sent last, and once
masked (MAE whose class token stays), where it holds nothing of a client. Every client is asked for features
before the first round, so all banks are there from the start; a client's first round only replaces its own.
The tensors that are alive must be flat from the first rounds on. Resident memory may creep by a few percent
until every client has taken part: freed memory is kept, and banks that are replaced leave holes in it.
"""

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import torch
import typer
from noise_pictures import NoisePictures
from quick import is_quick, start
from rich.console import Console
from tables import print_conditions, print_table

from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.rounds.server.metrics import MetricsLog

MIB = 1 << 20
PICTURES, SIZE = 20, 16  # of each client in each split; pixels
CHANNELS = [16, 32, 64, 128]
COHORT = 10  # clients of a round of pre-training
FEATURES = 128  # the width of what is shared
VISION_TRANSFORMER = {"img_size": SIZE, "patch_size": 4, "depth": 2, "embed_dim": 64, "num_heads": 2}
# What is pre-trained on, and how.
PRETRAINING: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "contrastive": (
        {"name": "resnet18", "options": {"channels": CHANNELS}},
        {
            "objective": {"name": "moco", "batch_size": PICTURES, "features": FEATURES},
            "exchange": {"name": "features"},
        },
    ),
    "masked": (
        {"name": "vit_tiny_patch16_224", "options": VISION_TRANSFORMER},
        {
            "objective": {
                "name": "mae",
                "batch_size": PICTURES,
                "decoder_width": 32,
                "decoder_depth": 1,
                "decoder_heads": 2,
            },
            "sync": {"name": "except", "groups": ["class_token"]},
        },
    ),
}


class Kind(StrEnum):
    """What is run."""

    FEDERATED = "federated"
    PRETRAINING = "pretraining"


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
            "stages": [stage],
        }
    )


def peak_bytes() -> int:
    """The largest resident set that this process ever had."""
    return told_by_kernel("VmHWM")


def told_by_kernel(figure: str) -> int:
    """Bytes of one line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{figure}:"))


def measure(clients: int, rounds: int, aggregator: str, in_memory: int) -> dict[str, Any]:
    """Run the job here: peak memory after the imports and at the end, and what one client sends."""
    job = describe_job(rounds, aggregator)
    dataset = NoisePictures(clients, PICTURES, SIZE, splits=("train", "validation", "test"))
    imported, started = peak_bytes(), perf_counter()
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        parts = ClientAppParts(job, dataset, ClientStore(folder / "clients"))
        engine = InProcessEngine(parts, folder / "spool", memory=in_memory)
        with MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log:
            result = run_stages(job, dataset, engine, metrics_log, folder)
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


def describe_pretraining(case: str, clients: int) -> Job:
    """Rounds of pre-training in which a few of the clients take part."""
    model, parts = PRETRAINING[case]
    stage = {
        "stage": "pretrain",
        "rounds": watched_rounds()[-1],
        "participation": COHORT / clients,
        "aggregator": {"name": "fedavg"},
        **parts,
    }
    return Job.model_validate(
        {
            "name": case,
            "data": {"adapter": "noise", "image_size": SIZE},
            "model": model,
            "engine": {"device": "cpu"},
            "stages": [stage],
        }
    )


class WatchingJournal(MetricsLog):
    """Reads the memory after some rounds, when their checkpoint is written."""

    def __init__(self, path: Path, console: Console) -> None:
        super().__init__(path, console)
        self.found: list[dict[str, int]] = []

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """After a round."""
        super().advance(stage, round_, rounds, note)
        if round_ in watched_rounds():
            self.found.append(
                {
                    "round": round_,
                    "seen": len({client for line in self.lines() for client in line["answered"]}),
                    "alive": bytes_of_tensors(),
                    "resident": told_by_kernel("VmRSS"),
                    "peak": peak_bytes(),
                }
            )


def bytes_of_tensors() -> int:
    """Bytes of all tensors that are alive in this process, shared memory counted once."""
    gc.collect()
    # By its type: asking a deprecated object for its class would warn.
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def watch_rounds(case: str, clients: int) -> list[dict[str, int]]:
    """Run one case here: memory after each of the watched rounds, and who took part until then."""
    torch.set_num_threads(1)
    job = describe_pretraining(case, clients)
    dataset = NoisePictures(clients, PICTURES, SIZE)
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        engine = InProcessEngine(
            ClientAppParts(job, dataset, ClientStore(folder / "clients")), folder / "spool"
        )
        with WatchingJournal(folder / "metrics.jsonl", Console(quiet=True)) as metrics_log:
            run_stages(job, dataset, engine, metrics_log, folder)
        engine.close()
    return metrics_log.found


def watch_apart(case: str, clients: int) -> list[dict[str, int]]:
    """`watch_rounds` in a fresh process."""
    command = [sys.executable, __file__, "--clients", str(clients), "--case", case]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def print_rounds(clients: int) -> None:
    """Both cases, one row for each watched round, against the first of them."""
    rows = []
    for case in PRETRAINING:
        found = watch_apart(case, clients)
        rows += [
            (
                case,
                one["round"],
                one["seen"],
                f"{one['alive'] / MIB:,.2f}",
                f"{one['resident'] / MIB:,.1f}",
                f"{one['resident'] / found[0]['resident']:.3f}",
                f"{one['peak'] / MIB:,.1f}",
                f"{one['peak'] / found[0]['peak']:.3f}",
            )
            for one in found
        ]
    first = f"after {watched_rounds()[0]}"
    header = ("job", "after round", "clients that took part", "tensors (MiB)", "resident (MiB)", f"/ {first}")
    print_table((*header, "peak (MiB)", f"/ {first}"), rows)


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


def watched_rounds() -> tuple[int, ...]:
    """The rounds of pre-training after which memory is read."""
    return (1, 2) if is_quick() else (5, 10, 20, 40)


def main(
    clients: Annotated[list[int] | None, typer.Option(help="How many clients; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each job.")] = 2,
    aggregator: Annotated[str, typer.Option(help="fedavg, fedauto, ...")] = "fedauto",
    in_memory: Annotated[float, typer.Option(help="MiB of updates that may wait in memory.")] = 16,
    job: Annotated[Kind, typer.Option(help="Federated rounds, or pre-training.")] = Kind.FEDERATED,
    alone: Annotated[bool, typer.Option("--alone", help="Measure the first size here; print JSON.")] = False,
    case: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure the coordinator's peak memory for several numbers of clients, or over rounds."""
    if case is not None:
        print(json.dumps(watch_rounds(case, (clients or [100])[0])))
        return
    if job == Kind.PRETRAINING:
        measure_pretraining((clients or [100])[0])
        return
    sizes = clients or [10, 100, 1000]
    if alone:
        print(json.dumps(measure(sizes[0], rounds, aggregator, int(in_memory * MIB))))
        return
    print_conditions(
        "Peak memory of the coordinator",
        {
            "model": f"resnet18 with channels {CHANNELS}, {SIZE} x {SIZE} pixels",
            "each client": f"{PICTURES} pictures in each of train, validation and test",
            "job": f"{rounds} rounds of {aggregator}, each evaluated, and the test",
            "updates in memory": f"{in_memory:g} MiB, the rest waits on disk",
        },
    )
    print_peaks({size: measure_apart(size, rounds, aggregator, in_memory) for size in sizes})


def measure_pretraining(clients: int) -> None:
    """Memory over rounds of both cases."""
    print_conditions(
        "Memory of the coordinator over rounds of pre-training",
        {
            "contrastive": f"MoCo on a resnet18 with channels {CHANNELS}; features of {FEATURES} shared",
            "masked": "MAE on a vision transformer of width 64 and depth 2; the class token stays",
            "clients": f"{clients}, of whom {COHORT} take part in each round; {PICTURES} pictures each",
            "the server's banks": f"{clients * PICTURES * FEATURES * 4 / MIB:.2f} MiB, all before round 1",
        },
    )
    print_rounds(clients)


if __name__ == "__main__":
    start(main, "--clients 2 --rounds 1", "--clients 20 --job pretraining")

"""What the coordinator keeps of its clients' models, in memory and on disk, against the number of clients.

With the exchange `peers` the coordinator needs the newest upload of every client that ever took part. These
are files under the stage's `uploads/`: for M clients at most 2 M times the bytes of what a client uploads,
and some KiB of names in each, since beside the newest upload the one before stays, which the last checkpoint
may still name. In memory each client costs its profile, two numbers in float64 for each tensor of the model.
Uploads are read when peers go out: the anonymized peer is a sum in float64, to which one upload at a time is
added, so that one parcel takes three times the bytes of a model while it is made and once afterwards,
whatever T and M are; a round has a parcel for each client of its cohort. So resident memory may grow with the
cohort, and not with M.

One job in a process of its own for each M and exchange: FixMatch on drawn pictures, the same cohort in every
round, with T = 2 anonymized peers or without any. Clients run in the same process, one after another; updates
beyond 16 MiB wait on disk. `resident` is VmRSS and `peak` VmHWM of /proc/self/status. Linux only.

    python benchmarks/peer_memory.py
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from memory import MIB, bytes_of_tensors, peak_bytes, told_by_kernel
from quick import start
from rich.console import Console
from tables import print_conditions, print_table

from clients.data.prepare import prepare
from clients.data.prepared import PreparedDataset
from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.messages.message import tensor_bytes
from training.models import initial_model
from training.models.classifier import float_state
from training.rounds.server.metrics import MetricsLog

SIZE = 32  # pixels
PICTURES = 30  # of each client, in all splits
CHANNELS = [16, 32, 64, 128]
COHORT = 5  # clients of a round
PEERS = 2
WARM_UP = 2
IN_MEMORY = 16 * MIB
EXCHANGES = ("none", "peers")


def describe_job(clients: int, rounds: int, exchange: str) -> Job:
    """A narrow ResNet-18 on drawn pictures, a part of them without labels."""
    peers = {"name": "peers", "peers": PEERS, "anonymous": True, "warm_up": WARM_UP}
    stage = {
        "stage": "federate",
        "rounds": rounds,
        "evaluate_on": None,
        "participation": min(1.0, COHORT / clients),
        "objective": {"name": "fixmatch", "samples": 8, "batch_size": 4, "threshold": 0},
        "exchange": peers if exchange == "peers" else {"name": "none"},
        "aggregator": {"name": "fedequal"},
    }
    return Job.model_validate(
        {
            "name": "peer-memory",
            "data": {
                "adapter": "synthetic",
                "options": {"pictures": PICTURES * clients, "size": SIZE},
                "image_size": SIZE,
                "clients": {"by": "iid", "count": clients},
                "label_fraction": 0.5,
            },
            "model": {"name": "resnet18", "options": {"channels": CHANNELS}},
            "engine": {"device": "cpu"},
            "stages": [stage],
        }
    )


def drawn(job: Job, cache: Path) -> PreparedDataset:
    """The job's pictures, drawn once and mapped into memory afterwards."""
    return prepare(job.data, seed=job.seed, folder=cache, cache=cache)


def bytes_under(folder: Path) -> int:
    """Of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class WatchingJournal(MetricsLog):
    """Reads memory and disk after some rounds, when their checkpoint is written.

    Args:
        path: of the log.
        uploads: where the stage keeps what clients uploaded.
        watched: after which rounds.
    """

    def __init__(self, path: Path, uploads: Path, watched: Sequence[int]) -> None:
        super().__init__(path, Console(quiet=True))
        self._uploads = uploads
        self._watched = watched
        self.found: list[dict[str, int]] = []

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """After a round."""
        super().advance(stage, round_, rounds, note)
        if round_ in self._watched:
            lines = self.lines()
            self.found.append(
                {
                    "round": round_,
                    "seen": len({client for line in lines for client in line["answered"]}),
                    "with_peers": sum(sent["beside"] > 0 for sent in lines[-1]["bytes_by_client"].values()),
                    "uploads": bytes_under(self._uploads),
                    "alive": bytes_of_tensors(),
                    "resident": told_by_kernel("VmRSS"),
                    "peak": peak_bytes(),
                }
            )


def measure(clients: int, rounds: int, exchange: str, cache: Path) -> dict[str, Any]:
    """Run one job here: memory and disk after a quarter, half and all of its rounds."""
    torch.set_num_threads(1)
    job = describe_job(clients, rounds, exchange)
    dataset = drawn(job, cache)
    watched = sorted({max(1, rounds // 4), max(1, rounds // 2), rounds})
    with tempfile.TemporaryDirectory(prefix="peer-memory-") as name:
        folder = Path(name)
        parts = ClientAppParts(job, dataset, ClientStore(folder / "clients"))
        engine = InProcessEngine(parts, folder / "spool", memory=IN_MEMORY)
        uploads = folder / "checkpoints" / job.key(0) / "uploads"
        with WatchingJournal(folder / "metrics.jsonl", uploads, watched) as metrics_log:
            run_stages(job, dataset, engine, metrics_log, folder)
        engine.close()
    model = tensor_bytes(
        float_state(initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels)))
    )
    return {"model": model, "found": metrics_log.found}


def measure_apart(clients: int, rounds: int, exchange: str, cache: Path) -> dict[str, Any]:
    """`measure` in a fresh process: a peak never falls again."""
    command = [sys.executable, __file__, "--exchange", exchange, "--cache", str(cache)]
    command += ["--clients", str(clients), "--rounds", str(rounds)]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(ended.stdout)
    return measured


def rows_of(clients: int, without: dict[str, Any], having: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row for each watched round: with peers, beside without."""
    model = having["model"]
    return [
        (
            str(clients),
            str(found["round"]),
            str(found["seen"]),
            f"{found['with_peers']} of {min(COHORT, clients)}",
            f"{model / MIB:.2f}",
            f"{found['uploads'] / MIB:.1f}",
            f"{found['uploads'] / model:.1f}",
            str(2 * clients),
            f"{found['alive'] / MIB:.1f}",
            f"{bare['alive'] / MIB:.1f}",
            f"{found['resident'] / MIB:.0f}",
            f"{bare['resident'] / MIB:.0f}",
            f"{found['peak'] / MIB:.0f}",
            f"{bare['peak'] / MIB:.0f}",
        )
        for found, bare in zip(having["found"], without["found"], strict=True)
    ]


def main(
    clients: Annotated[list[int] | None, typer.Option(help="How many clients; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each job.", min=1)] = 40,
    exchange: Annotated[str | None, typer.Option(hidden=True)] = None,
    cache: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure what the coordinator keeps for several numbers of clients."""
    sizes = clients or [10, 40]
    if exchange is not None and cache is not None:
        print(json.dumps(measure(sizes[0], rounds, exchange, cache)))
        return
    print_conditions(
        "What the coordinator keeps of its clients' models",
        {
            "model": f"resnet18 with channels {CHANNELS}, {SIZE} x {SIZE} pixels",
            "job": f"{rounds} rounds of FixMatch with {COHORT} clients in each, {WARM_UP} without peers",
            "exchange": f"peers, T = {PEERS}, anonymized, chosen by weights; beside it none",
            "updates in memory": f"{IN_MEMORY / MIB:g} MiB, the rest waits on disk",
        },
    )
    rows = []
    with tempfile.TemporaryDirectory(prefix="peer-memory-cache-") as name:
        for size in sizes:
            drawn(describe_job(size, rounds, "none"), Path(name))
            without, having = (measure_apart(size, rounds, each, Path(name)) for each in EXCHANGES)
            rows += rows_of(size, without, having)
    header = (
        "clients (M)",
        "after round",
        "clients that took part",
        "of the cohort with peers",
        "a model (MiB)",
        "uploads on disk (MiB)",
        "in models",
        "at most (2 M)",
        "tensors (MiB)",
        "without peers",
        "resident (MiB)",
        "without peers",
        "peak (MiB)",
        "without peers",
    )
    print_table(header, rows)


if __name__ == "__main__":
    start(main, "--clients 6 --rounds 4")

"""What a round costs in one process beside what its clients do, for a thousand clients and for ten thousand.

A job of federated averaging: a ResNet-18 of a sixteenth of the width at 8 pixels, 4 pictures of each client
in each split, one step a client, one in twenty clients in each round, each round evaluated by all clients
and checkpointed. Two clients in a hundred hold pictures of a subgroup that the others lack. Each run is a
process of its own, one after another.

With `--repeated` clients do not work: each gives the first answer to a request that a client like it gave in
the round, so that what is left is the coordinator's time.

Seconds are processor time of the process, since others may work on the machine. "At clients" is what is spent
within the clients' own code (`ClientApp.answer`), where there is one step or one look at 4 pictures; "beside"
is all else of a round: drawing cohorts, messages, checks, sums, figures, log and checkpoint. The census, the
rehearsal and the final test are in "begin and end".

Criteria, set before the first run: beside the clients' own work a round takes no more than a second for a
thousand clients and five for ten thousand; the last third of the rounds takes no more than 1.2 times the
first; memory after the imports grows by less than 100 KiB for each further client.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from time import process_time
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from memory import peak_bytes
from noise_pictures import NoisePictures
from numpy.typing import NDArray
from quick import start
from rich.console import Console
from tables import print_conditions, print_table, write_table

from clients.store import ClientStore
from training.data.dataset import Examples, Split
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.jobs.client_app import ClientApp
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.messages.message import Answer, Broadcast
from training.rounds.census import CENSUS
from training.rounds.requests import EVALUATE, FIT
from training.rounds.server.metrics import MetricsLog

KIB, MIB = 1 << 10, 1 << 20
PICTURES, SIZE, CHANNELS = 4, 8, [4, 8, 16, 32]
RARE = 50  # one client in so many holds the rare subgroup
PARTICIPATION = 0.05
HEADER = (
    "clients",
    "their answers",
    "rounds",
    "s a round",
    "of it at clients, fit",
    "at clients, evaluate",
    "beside",
    "last third / first",
    "begin and end, s",
    "KiB of log a round",
    "MiB a round",
    "peak, MiB",
    "after the imports, MiB",
)


@dataclass(frozen=True)
class ManyClients(NoisePictures):
    """As `NoisePictures`, with a subgroup that few clients hold, and names that are made once."""

    subgroups = ("light", "dark", "deep")
    splits: tuple[Split, ...] = ("train", "validation", "test")
    communities: ClassVar[dict[str, Sequence[str]]] = {}

    @cached_property
    def clients(self) -> tuple[str, ...]:
        """The clients' ids."""
        return tuple(f"client-{number:05d}" for number in range(self.count))

    @cached_property
    def _held(self) -> dict[bool, Examples]:
        numbers = np.arange(self.per_split, dtype=np.int64)
        return {rare: self._shown(numbers, 2 if rare else 0) for rare in (False, True)}

    def _shown(self, numbers: NDArray[np.int64], first: int) -> Examples:
        subgroups = np.where(numbers < self.per_split // 2, first, 1)
        return Examples(self.images, numbers, numbers % 2, subgroups, numbers)

    @cached_property
    def _none(self) -> Examples:
        return self._shown(np.arange(0, dtype=np.int64), 0)

    def examples(self, client: str, split: Split) -> Examples:
        """The same few pictures for everybody, or for everybody with the rare subgroup."""
        return self._held[is_rare(client)] if split in self.splits else self._none


def is_rare(client: str) -> bool:
    """Whether a client holds pictures of the rare subgroup."""
    return int(client[-5:]) % RARE == 0


class Clock:
    """Processor time within the clients' own code, by request."""

    def __init__(self, *, repeated: bool) -> None:
        self.spent = {FIT: 0.0, EVALUATE: 0.0}
        self._repeated = repeated
        self._given: dict[tuple[str, int, bool], Answer] = {}

    def around(self, app: ClientApp) -> None:
        """Measure what this app does from now on."""
        answer = app.answer

        def timed(broadcast: Broadcast) -> Answer:
            begun = process_time()
            like = (broadcast.ask, broadcast.round, is_rare(broadcast.client))
            try:
                if not self._repeated or broadcast.ask == CENSUS:
                    return answer(broadcast)
                if like not in self._given:
                    self._given = {**{key: one for key, one in self._given.items() if key[1] == like[1]}}
                    self._given[like] = answer(broadcast)
                return replace(self._given[like], client=broadcast.client)
            finally:
                self.spent[broadcast.ask] = self.spent.get(broadcast.ask, 0.0) + process_time() - begun

        app.answer = timed  # type: ignore[method-assign]


class TimedLog(MetricsLog):
    """Notes the processor time at the end of each round."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(path, Console(quiet=True))
        self._clock = clock
        self.ends: list[tuple[float, float, float]] = []

    def _note(self) -> None:
        self.ends.append((process_time(), self._clock.spent[FIT], self._clock.spent[EVALUATE]))

    def begin(self, stage: str, rounds: int, done: int) -> None:
        """Before the first round."""
        super().begin(stage, rounds, done)
        self._note()

    def advance(self, stage: str, round_: int, rounds: int, note: str) -> None:
        """After a round."""
        super().advance(stage, round_, rounds, note)
        self._note()


def describe_job(rounds: int) -> Job:
    """One step a client, one client in twenty."""
    stage = {
        "stage": "federate",
        "rounds": rounds,
        "objective": {"name": "supervised", "batch_size": PICTURES},
        "aggregator": {"name": "fedavg"},
        "participation": PARTICIPATION,
    }
    return Job.model_validate(
        {
            "name": "thousand-clients",
            "data": {"adapter": "noise", "image_size": SIZE},
            "model": {"name": "resnet18", "options": {"channels": CHANNELS}},
            "engine": {"device": "cpu"},
            "privacy": {"min_count": 1},
            "stages": [stage],
        }
    )


def measure(clients: int, rounds: int, *, repeated: bool) -> dict[str, Any]:
    """Run the job here."""
    job, dataset = describe_job(rounds), ManyClients(clients, PICTURES, SIZE)
    clock = Clock(repeated=repeated)
    imported, began = peak_bytes(), process_time()
    with tempfile.TemporaryDirectory(prefix="clients-") as name:
        folder = Path(name)
        engine = InProcessEngine(
            ClientAppParts(job, dataset, ClientStore(folder / "clients")), folder / "spool"
        )
        assert engine._app is not None
        clock.around(engine._app)
        with TimedLog(folder / "metrics.jsonl", clock) as log:
            run_stages(job, dataset, engine, log, folder)
            lines, size = log.lines(), log.size
        engine.close()
    whole = process_time() - began
    ends = np.array(log.ends)
    each = np.diff(ends, axis=0)
    beside = each[:, 0] - each[:, 1] - each[:, 2]
    third = max(len(beside) // 3, 1)
    return {
        "round": median(each[:, 0]),
        "fit": median(each[:, 1]),
        "evaluate": median(each[:, 2]),
        "beside": median(beside),
        "drift": median(beside[-third:]) / median(beside[:third]),
        "ends": whole - (ends[-1, 0] - ends[0, 0]),
        "log": size / len(lines),
        "bytes": median(line["bytes_up"] + line["bytes_down"] for line in lines),
        "peak": peak_bytes(),
        "imported": imported,
    }


def measure_apart(clients: int, rounds: int, *, repeated: bool) -> dict[str, Any]:
    """`measure` in a fresh process: a peak never falls again."""
    command = [sys.executable, __file__, "--clients", str(clients), "--rounds", str(rounds)]
    command += ["--alone", *(["--repeated"] if repeated else [])]
    ended = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(ended.stdout)


def row(clients: int, rounds: int, found: dict[str, Any], *, repeated: bool) -> tuple[str, ...]:
    """A line of the table."""
    return (
        f"{clients}",
        "repeated" if repeated else "own",
        f"{rounds}",
        *(f"{found[name]:.2f}" for name in ("round", "fit", "evaluate", "beside", "drift", "ends")),
        f"{found['log'] / KIB:.0f}",
        f"{found['bytes'] / MIB:.1f}",
        f"{found['peak'] / MIB:.0f}",
        f"{found['imported'] / MIB:.0f}",
    )


def main(
    clients: Annotated[list[int] | None, typer.Option(help="How many clients; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 6,
    repeated: Annotated[bool, typer.Option("--repeated", help="Clients repeat one answer.")] = False,
    table: Annotated[Path | None, typer.Option(help="Where the table is written.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Measure the first here; print JSON.")] = False,
) -> None:
    """Measure rounds of many clients."""
    sizes = clients or [1000, 10000]
    if alone:
        print(json.dumps(measure(sizes[0], rounds, repeated=repeated)))
        return
    print_conditions(
        "Many clients in one process",
        {
            "model": f"resnet18 with channels {CHANNELS}, {SIZE} x {SIZE} pixels",
            "each client": f"{PICTURES} pictures in each of train, validation and test; one step a round",
            "participation": f"{PARTICIPATION:g}",
        },
    )
    rows = [
        row(size, rounds, measure_apart(size, rounds, repeated=repeated), repeated=repeated) for size in sizes
    ]
    print_table(HEADER, rows)
    if table is not None:
        write_table(table, HEADER, rows)


if __name__ == "__main__":
    start(main, "--clients 20 --rounds 3", "--clients 20 --rounds 3 --repeated")

"""How much goes down to the clients where weights that a site holds are named and not sent again.

Jobs of federated averaging in one process, where no bytes travel: counted is what would, question by
question, by the rules of the network's engine (`training.engines.nvflare.held_weights`) and with digests of
the real tensors. Each client is a site that holds the weights of its last question. Clients repeat one answer
(as in `thousand_clients.py`), since what they answer does not change what they are sent. "Before" is every
question with all its tensors. Rounds are those of the second half of a run, with their evaluation: in the
first ones some tensors of this model do not learn yet.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer
from quick import start
from rich.console import Console
from tables import print_conditions, print_table, write_table
from thousand_clients import CHANNELS, PICTURES, Clock, ManyClients

from clients.store import ClientStore
from training.engines.in_process import ClientAppParts, InProcessEngine
from training.engines.nvflare.held_weights import HeldWeights, worth_holding
from training.federation.questions import EVALUATE, FIT
from training.federation.server.metrics_log import MetricsLog
from training.jobs.job import Job
from training.jobs.pipeline import run_stages
from training.messages.engine import Engine
from training.messages.message import Answer, Broadcast, tensor_bytes
from training.messages.tensor_digest import tensor_digests

MIB = 1 << 20
SIZE = 16  # pixels
HEADER = (
    "clients",
    "train a round",
    "model, MiB",
    "before, models down a round",
    "now",
    "less",
)


@dataclass
class CountingEngine:
    """Asks another engine, and counts what would go down a network.

    Attributes:
        engine: that is asked.
        held: what the clients hold.
        before, now: bytes by round of training and evaluation; of all else under 0.
    """

    engine: Engine
    held: HeldWeights
    before: Counter[int] = field(default_factory=Counter)
    now: Counter[int] = field(default_factory=Counter)
    _number: int = 0

    def run_round(self, broadcasts: Sequence[Broadcast]) -> Sequence[Answer]:
        """Answers of the other engine."""
        digests = {id(each.tensors): {} for each in broadcasts}
        for broadcast in broadcasts:
            known = digests[id(broadcast.tensors)]
            if not known and worth_holding(broadcast.tensors):
                known |= tensor_digests(broadcast.tensors)
            self._count(broadcast, known)
        return self.engine.run_round(broadcasts)

    def _count(self, broadcast: Broadcast, digests: dict[str, str]) -> None:
        self._number += 1
        round_ = broadcast.round if broadcast.ask in (FIT, EVALUATE) else 0
        size = tensor_bytes(broadcast.tensors)
        named = self.held.named(broadcast.client, digests)
        spared = tensor_bytes({name: broadcast.tensors[name] for name in named})
        self.before[round_] += size
        self.now[round_] += size - spared
        if digests:
            self.held.note(broadcast.client, self._number, digests, holds=True)


def count(clients: int, rounds: int, participation: float) -> tuple[str, ...]:
    """A line of the table."""
    stage = {
        "stage": "federate",
        "rounds": rounds,
        "objective": {"name": "supervised", "batch_size": PICTURES},
        "aggregator": {"name": "fedavg"},
        "participation": participation,
    }
    job = Job.model_validate(
        {
            "name": "weights-once",
            "data": {"adapter": "noise", "image_size": SIZE},
            "model": {"name": "resnet18", "options": {"channels": CHANNELS}},
            "engine": {"device": "cpu"},
            "privacy": {"min_count": 1},
            "stages": [stage],
        }
    )
    dataset = ManyClients(clients, PICTURES, SIZE)
    with tempfile.TemporaryDirectory(prefix="weights-") as name:
        folder = Path(name)
        parts = ClientAppParts(job, dataset, ClientStore(folder / "clients"))
        engine = InProcessEngine(parts, folder / "spool")
        assert engine._app is not None
        Clock(repeated=True).around(engine._app)
        counting = CountingEngine(engine, HeldWeights(dataset.clients))
        with MetricsLog(folder / "metrics.jsonl", Console(quiet=True)) as log:
            done = run_stages(job, dataset, counting, log, folder)
        engine.close()
    model = tensor_bytes(done.stages["0-federate"].outcome.models["global"])
    later = range(rounds // 2 + 1, rounds + 1)
    before, now = (mean(each[round_] for round_ in later) / model for each in (counting.before, counting.now))
    return (
        f"{clients:,}",
        f"{participation:.0%}",
        f"{model / MIB:.2f}",
        f"{before:.1f}",
        f"{now:.1f}",
        f"{1 - now / before:.1%}",
    )


def main(
    few: Annotated[int, typer.Option(help="Clients that all train and evaluate.")] = 4,
    many: Annotated[int, typer.Option(help="Clients of which one in twenty trains.")] = 1000,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 6,
    table: Annotated[Path | None, typer.Option(help="Where the table is written.")] = None,
) -> None:
    """Count, and print."""
    print_conditions("Weights that are sent once", {"model": f"resnet18 with channels {CHANNELS}"})
    cases = [(few, 1.0), (many, 0.05)]
    rows = [count(clients, rounds, trains) for clients, trains in cases]
    print_table(HEADER, rows)
    if table is not None:
        write_table(table, HEADER, rows)


if __name__ == "__main__":
    start(main, "--few 3 --many 20 --rounds 2")

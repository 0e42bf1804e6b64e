"""What a sum under masks costs with 50 to 200 hospitals.

The whole protocol in one process, one thread and processor time (`time.process_time`), so that what else a
machine does does not count: hospitals' answers from the withheld numbers to the shares, and the coordinator
between them. Left out: transport, signatures (without identities nobody signs), what is kept on disk. Each
sum is of 1,000 counts, one in twenty hospitals leaves after it has shared, and the sum is held against the
plain one. Besides: the time of one mask over 4 million numbers of 32 bits, which a hospital makes as many of
as there are other hospitals.

Goal: with 200 hospitals the coordinator takes 2 s.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import quick
import torch
import typer
from tables import print_conditions, print_table, write_table

from training.algorithms.client import Client, State
from training.messages.message import Answer, Broadcast, Failure, Update, tensor_bytes
from training.updates.secure_aggregation.client import answer, withhold
from training.updates.secure_aggregation.fixed_point import Entry, FixedPointVector
from training.updates.secure_aggregation.masked_sum import sum_withheld
from training.updates.settings import SecureAggregationConfig

COUNTS = 1000
MODEL = 4_000_000
LEAVING = 20  # every so manieth hospital
HEADER = (
    "hospitals",
    "whole sum (s)",
    "coordinator (s)",
    "one hospital (ms)",
    "up (kB)",
    "down (kB)",
)


class Kept:
    """A state store in memory, of the last state alone."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], State] = {}

    def load(self, client: str, stage: str, round: int) -> State | None:
        """What was kept last."""
        return self._kept.get((client, stage))

    def save(self, client: str, stage: str, round: int, state: State) -> None:
        """Keep it."""
        self._kept[client, stage] = state


class Hospitals:
    """Hospitals of which the time and the bytes are counted."""

    def __init__(self, count: int, config: SecureAggregationConfig) -> None:
        self.config, self.seconds, self.up, self.down = config, 0.0, 0, 0
        store = Kept()
        names = [f"hospital-{number:04d}" for number in range(count)]
        self.clients = {name: Client(name, 0, 1, None, store, None) for name in names}  # type: ignore[arg-type]
        self.leaving = set(names[::LEAVING])
        self.counts = {name: torch.randint(0, 1000, (COUNTS,), dtype=torch.int32) for name in names}

    def withheld(self) -> list[Update]:
        """Everybody's keys."""
        begun = process_time()
        updates = [
            withhold(Update(name, "0-federate", 1, "fit", tensors={"counts": self.counts[name]}), client)
            for name, client in self.clients.items()
        ]
        self.seconds += process_time() - begun
        return updates

    def ask(self, questions: Sequence[Broadcast]) -> list[Answer]:
        """Answers of those that are there."""
        return [self._answer(question) for question in questions]

    def _answer(self, question: Broadcast) -> Answer:
        if question.ask != "share" and question.client in self.leaving:
            return Failure(question.client, question.track, "no sign of life")
        begun = process_time()
        update = answer(question, self.clients[question.client], self.config)
        self.seconds += process_time() - begun
        self.up += tensor_bytes(update.tensors)
        self.down += tensor_bytes(question.tensors) + len(json.dumps(question.options))
        return update


def measure(count: int) -> list[Any]:
    """One sum: seconds in all, of the coordinator, of one hospital in the mean; kB up and down of one."""
    torch.set_num_threads(1)
    hospitals = Hospitals(count, SecureAggregationConfig())
    begun = process_time()
    updates = hospitals.withheld()
    summed = sum_withheld(hospitals.ask, updates, hospitals.config)
    whole = process_time() - begun
    expected = sum(hospitals.counts[name] for name in summed.clients)
    if len(summed.clients) != count - len(hospitals.leaving) or not torch.equal(
        summed.tensors["counts"], torch.as_tensor(expected)
    ):
        raise SystemExit("the sum is wrong")
    parts = [whole, whole - hospitals.seconds, hospitals.seconds / count * 1000]
    return [round(part, 3) for part in parts] + [
        round(n / count / 1000, 1) for n in (hospitals.up, hospitals.down)
    ]


def mask_of_a_model(values: int) -> float:
    """Milliseconds for one mask over so many numbers of 32 bits, added."""
    vector = FixedPointVector.zeros([Entry(name="weights", shape=(values,), dtype="float32", bound=64)])
    times = []
    for number in range(5):
        begun = process_time()
        vector.add(vector.mask(bytes([number]) * 32))
        times.append(process_time() - begun)
    return round(min(times) * 1000, 1)


def main(
    hospitals: Annotated[str, typer.Option(help="How many, with commas.")] = "50,100,200",
    values: Annotated[int, typer.Option(help="Numbers of a model.")] = MODEL,
    out: Annotated[Path | None, typer.Option(help="A CSV of the table.")] = None,
) -> None:
    """Sums of 1,000 counts over many hospitals."""
    mask = mask_of_a_model(values)
    print_conditions(
        "Masks at scale",
        {"numbers": COUNTS, "leaving": f"1 in {LEAVING}", f"a mask over {values:,} numbers (ms)": mask},
    )
    rows: list[list[Any]] = []
    for count in map(int, hospitals.split(",")):
        rows.append([count, *measure(count)])
        print(rows[-1], flush=True)
        if out is not None:
            write_table(out, HEADER, rows)
    print_table(HEADER, rows)


if __name__ == "__main__":
    quick.start(main, "--hospitals 4,33 --values 1000")

"""What a round under masks costs with 50 to 200 hospitals that train a head.

The whole protocol in one process, one thread and processor time (`time.process_time`), so that what else a
machine does does not count: hospitals' answers from the withheld numbers to the shares, and the coordinator
between them, with the JSON of its requests. Left out: transport, and what is kept on disk. A round is two
sums over all hospitals: of a head's weights (7 x 512 and 7) and of 1,000 counts. One in twenty hospitals
leaves after it has shared, and both sums are held against the plain ones. With `--signed` every hospital has
a certificate, signs its keys and checks those of all others. Besides: the time of one mask over 4 million
numbers of 32 bits, which a hospital makes as many of as there are other hospitals.

Goal: with 200 hospitals the coordinator takes 2 s a round.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import torch
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests.attacks

from quick import print_conditions, print_table, start, write_table

from tests.attacks.summing import Anybody, identity
from training.algorithms.client import Client, State
from training.messages import Answer, Broadcast, Failure, Update, tensor_bytes
from training.privacy.secagg.arithmetic import Entry, FixedPointVector
from training.privacy.secagg.client import answer, withhold
from training.privacy.secagg.sums import MaskedSum, sum_masked_updates
from training.privacy.settings import SecureAggregationConfig

COUNTS, CLASSES, FEATURES = 1000, 7, 512
MODEL = 4_000_000
LEAVING = 20  # every so manieth hospital
HEADER = (
    "hospitals",
    "signed",
    "whole round (s)",
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

    def __init__(self, count: int, config: SecureAggregationConfig, *, signed: bool) -> None:
        self.config, self.seconds, self.up, self.down = config, 0.0, 0, 0
        store = Kept()
        names = [f"hospital-{number:04d}" for number in range(count)]
        self.clients = {name: Client(name, 0, 1, None, store, None) for name in names}  # type: ignore[arg-type]
        self.identities = {name: identity(name, Anybody()) if signed else None for name in names}
        self.leaving = set(names[::LEAVING])
        self.held = {
            "fit": {
                name: {"weight": torch.randn(CLASSES, FEATURES), "bias": torch.randn(CLASSES)}
                for name in names
            },
            "evaluate": {
                name: {"counts": torch.randint(0, 1000, (COUNTS,), dtype=torch.int32)} for name in names
            },
        }

    def withheld(self, ask: str) -> list[Update]:
        """Everybody's keys."""
        begun = process_time()
        updates = [
            withhold(
                Update(name, "0-federate", 1, ask, tensors=self.held[ask][name]),
                client,
                identity=self.identities[name],
            )
            for name, client in self.clients.items()
        ]
        self.seconds += process_time() - begun
        return updates

    def ask(self, requests: Sequence[Broadcast]) -> list[Answer]:
        """Answers of those that are there."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Broadcast) -> Answer:
        self.down += tensor_bytes(request.tensors) + len(json.dumps(request.options))
        if request.ask != "share" and request.client in self.leaving:
            return Failure(request.client, request.track, "no heartbeat")
        begun = process_time()
        name = request.client
        update = answer(request, self.clients[name], self.config, self.identities[name])
        self.seconds += process_time() - begun
        self.up += tensor_bytes(update.tensors)
        return update

    def require_right(self, ask: str, summed: MaskedSum) -> None:
        """Stop where a sum is not that of the hospitals in it."""
        if len(summed.clients) != len(self.clients) - len(self.leaving):
            raise SystemExit(f"{len(summed.clients)} hospitals are in the sum")
        for name, tensor in summed.tensors.items():
            plain = sum(self.held[ask][client][name].double() for client in summed.clients)
            if not torch.allclose(tensor.double(), torch.as_tensor(plain), rtol=0, atol=1e-3):
                raise SystemExit(f"the sum of {name} is wrong")


def measure(count: int, *, signed: bool) -> list[Any]:
    """One round: seconds in all, of the coordinator, of one hospital in the mean; kB up and down of one."""
    torch.set_num_threads(1)
    hospitals = Hospitals(count, SecureAggregationConfig(), signed=signed)
    whole = 0.0
    for ask in hospitals.held:
        begun = process_time()
        summed = sum_masked_updates(hospitals.ask, hospitals.withheld(ask), hospitals.config)
        whole += process_time() - begun
        hospitals.require_right(ask, summed)
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
    signed: Annotated[bool, typer.Option(help="With certificates, as over a network.")] = False,
    out: Annotated[Path | None, typer.Option(help="A CSV of the table.")] = None,
) -> None:
    """A round of a head over many hospitals."""
    mask = mask_of_a_model(values)
    print_conditions(
        "Masks at scale",
        {
            "weights": CLASSES * FEATURES + CLASSES,
            "counts": COUNTS,
            "signed": signed,
            "leaving": f"1 in {LEAVING}",
            f"a mask over {values:,} numbers (ms)": mask,
        },
    )
    rows: list[list[Any]] = []
    for count in map(int, hospitals.split(",")):
        rows.append([count, "yes" if signed else "no", *measure(count, signed=signed)])
        print(rows[-1], flush=True)
        if out is not None:
            write_table(out, HEADER, rows)
    print_table(HEADER, rows)


if __name__ == "__main__":
    start(main, "--hospitals 4,33 --values 1000 --signed")

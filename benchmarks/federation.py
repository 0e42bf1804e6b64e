"""What a federation costs: in one process beside other simulators, over the real wire, and in memory.

- simulators: the same job of federated averaging by our engine on one machine, by Flower's simulation and by
  FLARE's simulator (`simulators.py`, `plain/`). Flower does not install beside us: give the Python of an
  environment of its own with `--flower-python` (`pip install "flwr[simulation]" torch safetensors`).
- wire: the same job with a coordinator and four nodes as processes on loopback, kits, mTLS (`wire.py`).
- memory: the coordinator's peak for 4 and 16 nodes that are processes, and of our own part of it for 4, 16
  and 64 hospitals behind one process (`cohort_memory.py`).
- large: a model of 343 MB over the wire, between two nodes.

Whoever competes takes turns, the first in turn; figures are medians. A round's time is from the end of one to
the end of the next, seen from outside.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from cohort_memory import MIB, MODEL, OBJECTIVE
from cohort_memory import SIZE as SMALL
from cohort_memory import measure as measure_cohort
from quick import start
from safetensors.torch import save_file
from simulators import BARE, CLOSE, OURS, Ran, Simulators, apart
from tables import print_conditions, print_table
from wire import Carried, Wire

from training.models import ModelConfig, build_model
from training.models.classifier import float_state

FOUR = ("north", "south", "east", "west")
BATCH, PICTURES, SIZE = 32, 170, 32
NETWORK = {"name": "resnet18", "options": {"channels": [16, 32, 64, 128]}}
WIDE, WIDE_SIZE = (
    {"name": "resnet18", "options": {"channels": [64, 128, 256, 512]}},
    64,
)  # of a frozen encoder


class Part(StrEnum):
    """What is measured."""

    SIMULATORS = "simulators"
    WIRE = "wire"
    MEMORY = "memory"
    LARGE = "large"


def small_job(steps: int, rounds: int) -> dict[str, Any]:
    """So many gradient steps a client and round of a narrow ResNet-18."""
    optimizer = {"name": "sgd", "lr": 2e-3, "momentum": 0.9}
    objective = {
        "samples": steps * BATCH,
        "batch_size": BATCH,
        "augment": {"flip": False},
        "optimizer": optimizer,
    }
    return {
        "size": SIZE,
        "model": NETWORK,
        "objective": objective,
        "rounds": rounds,
        "engine": {"workers": os.cpu_count() or 1},
    }


def compared(steps: Sequence[int], rounds: int, weights: Path) -> dict[str, dict[str, Any]]:
    """What simulators are compared by: gradient steps alone, with an evaluation, and on a frozen encoder."""
    frozen = {
        **small_job(max(steps), rounds),
        "size": WIDE_SIZE,
        "model": {**WIDE, "weights": str(weights)},
        "stage": {"trainable": {"name": "head"}},
    }
    return {
        **{in_words(count): small_job(count, rounds) for count in steps},
        f"{in_words(min(steps))}, judged": {
            **small_job(min(steps), rounds),
            "stage": {"evaluate_on": "validation"},
        },
        f"{in_words(max(steps))}, frozen encoder": frozen,
    }


def in_words(steps: int) -> str:
    """So many gradient steps."""
    return f"{steps} step" if steps == 1 else f"{steps} steps"


def compare_simulators(
    folder: Path, steps: Sequence[int], rounds: int, turns: int, flower: Path | None
) -> None:
    """Table of all simulators, for each number of steps, for one that is evaluated and a frozen encoder.

    But for the most steps all must end with the same model. With these, this network makes much of rounding:
    its last layers see one pixel, and batch normalisation divides a dead channel by next to nothing.
    """
    rows = []
    if flower is None:
        print("without --flower-python Flower is left out\n")
    weights = folder / "encoder.safetensors"
    drawn = float_state(build_model(ModelConfig.model_validate(WIDE), 2, seed=0, image_size=WIDE_SIZE))
    save_file({name.removeprefix("encoder."): value for name, value in drawn.items()}, weights)
    for number, (what, job) in enumerate(compared(steps, rounds, weights).items()):
        place = folder / f"simulators-{number}"
        three = Simulators(Wire(place, FOUR, PICTURES, job).job_file, place / "simulators", flower)
        ran: dict[str, list[Ran]] = {name: [] for name in three.names}
        for turn in range(turns):
            for name in in_turn(three.names, turn):
                ran[name].append(three.run(name))
        strict = what != in_words(max(steps)) or len(steps) == 1
        rows += [(what, *row) for row in rows_of(three, ran, strict=strict)]
    header = ("a client's round", "simulator", "s a round", "by turn", f"/ {OURS}", f"more than {BARE}, s")
    print_table((*header, "whole run, s", "accuracy", "apart"), rows)


def rows_of(three: Simulators, ran: dict[str, list[Ran]], *, strict: bool) -> Iterator[tuple[str, ...]]:
    """A row of each simulator; where it is strict, none may have computed something else."""
    rounds = {name: median_round([each.times.rounds for each in runs]) for name, runs in ran.items()}
    ours = ran[OURS][-1].weights
    [bare] = [name for name in ran if name.startswith(BARE)]
    for name, runs in ran.items():
        found, difference = "", ""
        if name != bare:
            distance = max(apart(ours, each.weights, three.initial) for each in runs)
            if strict and distance > CLOSE:
                raise SystemExit(f"{name} computes something else: its model is {distance:.2g} from ours")
            found, difference = f"{three.accuracy(runs[-1].weights):.4f}", f"{distance:.1g}"
        yield (
            name,
            f"{rounds[name]:.3f}",
            spread([median(each.times.rounds) for each in runs]),
            f"{rounds[name] / rounds[OURS]:.2f}",
            f"{rounds[name] - rounds[bare]:.3f}",
            f"{median(each.times.whole for each in runs):.1f}",
            found,
            difference,
        )


def compare_wire(folder: Path, steps: Sequence[int], rounds: int, turns: int) -> None:
    """Table of the wire beside one machine, for each number of steps."""
    rows = []
    for count in steps:
        with Wire(folder / f"{count}-steps-wire", FOUR, PICTURES, small_job(count, rounds)).open() as wire:
            pairs = []
            for turn in range(turns):
                both = {name: getattr(wire, name)() for name in in_turn(("here", "there"), turn)}
                pairs.append((both["here"], both["there"]))
        here = median_round([one.times.rounds for one, _ in pairs])
        there = median_round([other.times.rounds for _, other in pairs])
        line = pairs[-1][1].log[-1]
        rows.append(
            (
                count,
                f"{here:.3f}",
                f"{there:.3f}",
                f"{there - here:+.3f}",
                spread([median(b.times.rounds) - median(a.times.rounds) for a, b in pairs]),
                f"{(line['bytes_up'] + line['bytes_down']) / MIB:.1f}",
                f"{median(b.times.whole for _, b in pairs):.0f}",
            )
        )
    header = (
        "steps a client",
        "one machine, s a round",
        "wire, s a round",
        "more, s",
        "by turn",
        "MiB a round",
    )
    print_table((*header, "whole run, s"), rows)


def compare_memory(folder: Path, nodes: Sequence[int], hospitals: Sequence[int], in_memory: float) -> None:
    """Tables of the coordinator's peak, with FLARE and without."""
    rows = []
    for count in nodes:
        ran = in_processes(folder / f"{count}-nodes", count)
        model = ran.log[-1]["bytes_up"] / count
        rows.append(
            (count, f"{model / MIB:.1f}", f"{ran.coordinator / MIB:,.0f}", f"{ran.hospital / MIB:,.0f}")
        )
    if rows:
        print_table(
            ("nodes", "model, MiB", "coordinator's job, peak MiB", "a hospital's job, peak MiB"), rows
        )
    rows = []
    for count in hospitals:
        place = folder / f"{count}-hospitals"
        place.mkdir(parents=True)
        found = measure_cohort(count, 3, in_memory, place)
        rows.append((count, *(f"{found[each] / MIB:,.0f}" for each in ("sent", "imported", "peak"))))
    header = (
        "hospitals in one process",
        "sent by them, MiB",
        "after the imports, MiB",
        "our own part, peak MiB",
    )
    print_table(header, rows)


def in_processes(folder: Path, count: int) -> Carried:
    """A few rounds with so many nodes."""
    job = {"size": SMALL, "model": MODEL, "objective": OBJECTIVE, "rounds": 4, "engine": {}}
    with Wire(folder, [f"hospital-{number:02d}" for number in range(count)], 16, job).open() as wire:
        return wire.there()


def carry_large(folder: Path, rounds: int, model_name: str) -> None:
    """Table of a large model between two nodes."""
    optimizer = {"name": "sgd", "lr": 1e-3, "momentum": 0.0}
    objective = {"samples": 2, "batch_size": 2, "augment": {"flip": False}, "optimizer": optimizer}
    job = {"size": 224, "model": {"name": model_name}, "objective": objective, "rounds": rounds, "engine": {}}
    with Wire(folder / "large", FOUR[:2], 12, job).open() as wire:
        here, there = wire.here(), wire.there()
    model = there.log[-1]["bytes_up"] / 2
    one, other = median(here.times.rounds), median(there.times.rounds)
    row = (
        f"{model / MIB:.0f}",
        f"{4 * model / MIB:,.0f}",
        f"{one:.1f}",
        f"{other:.1f}",
        f"{there.coordinator / MIB:,.0f}",
        f"{there.coordinator / model:.1f}",
        f"{there.hospital / MIB:,.0f}",
        f"{there.hospital / model:.1f}",
    )
    header = ("model, MiB", "MiB a round", "one machine, s a round", "wire, s a round")
    print_table(
        (*header, "coordinator's job, peak MiB", "/ model", "a hospital's job, peak MiB", "/ model"), [row]
    )


def in_turn(names: Sequence[str], turn: int) -> Sequence[str]:
    """Another one first in each turn."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def median_round(turns: Sequence[Sequence[float]]) -> float:
    """Of all rounds of all turns."""
    return median(seconds for rounds in turns for seconds in rounds)


def spread(values: Sequence[float]) -> str:
    """From the least to the greatest."""
    return f"{min(values):.2f} to {max(values):.2f}"


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="federation-") as name:
        yield Path(name)


def main(
    part: Annotated[
        list[Part] | None, typer.Option(help="What to measure; may be repeated. All by default.")
    ] = None,
    flower_python: Annotated[Path | None, typer.Option(help="Python of an environment with Flower.")] = None,
    steps: Annotated[list[int] | None, typer.Option(help="Gradient steps of a client in a round.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each small job; the first is not counted.")] = 8,
    turns: Annotated[int, typer.Option(help="How often each competitor runs.")] = 3,
    nodes: Annotated[list[int] | None, typer.Option(help="Nodes that are processes.")] = None,
    hospitals: Annotated[list[int] | None, typer.Option(help="Hospitals behind one process.")] = None,
    in_memory: Annotated[float, typer.Option(help="MiB of updates in memory, of our own part.")] = 16,
    large: Annotated[str, typer.Option(help="The large timm model.")] = "vit_base_patch16_224",
    folder: Annotated[Path | None, typer.Option(help="Where work is done.")] = None,
) -> None:
    """Measure and print."""
    parts = part or list(Part)
    print_conditions(
        "What a federation costs",
        {
            "small job": f"{NETWORK['name']} with channels {NETWORK['options']['channels']}, {SIZE} pixels, "
            f"batches of {BATCH}, SGD, FedAvg, 4 hospitals, {rounds} rounds, no evaluation between them",
            "turns": turns,
            "threads": "1 a client",
        },
    )
    with scratch(folder) as place:
        if Part.SIMULATORS in parts:
            compare_simulators(place, steps or [1, 8], rounds, turns, flower_python)
        if Part.WIRE in parts:
            compare_wire(place, steps or [1, 8], rounds, turns)
        if Part.MEMORY in parts:
            compare_memory(place, nodes or [4, 16], hospitals or [4, 16, 64], in_memory)
        if Part.LARGE in parts:
            carry_large(place, 3, large)
    print(f"load at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    start(main, "--steps 1 --rounds 2 --turns 1 --nodes 2 --hospitals 2 --large vit_tiny_patch16_224")

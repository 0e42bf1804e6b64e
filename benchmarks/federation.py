"""What a federation costs: in one process compared with Flower's simulation, and over the real wire.

- simulators: the same job of federated averaging by our engine on one machine and by Flower's simulation
  (`simulators.py`, `plain/`). Flower does not install next to us: give the Python of an environment of its
  own with `--flower-python` (`pip install "flwr[simulation]" torch safetensors`).
- wire: the same job with a coordinator and four nodes as processes on loopback, kits, mTLS (`hospitals.py`).

Competitors take turns, another one first in each turn; figures are medians. A round's time is from the end of
one to the end of the next, seen from outside.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from hospitals import Wire
from quick import print_conditions, print_table, start
from safetensors.torch import save_file
from simulators import BARE, CLOSE, OURS, Ran, Simulators, apart

from training.models import ModelConfig, build_model
from training.models.classifier import float_state

FOUR = ("north", "south", "east", "west")
BATCH, PICTURES, SIZE = 32, 170, 32
NETWORK = {"name": "resnet18", "options": {"channels": [16, 32, 64, 128]}}
# Of a frozen encoder.
WIDE, WIDE_SIZE = {"name": "resnet18", "options": {"channels": [64, 128, 256, 512]}}, 64


class Part(StrEnum):
    """What is measured."""

    SIMULATORS = "simulators"
    WIRE = "wire"


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
        here = median_round([one.rounds for (one, _), _ in pairs])
        there = median_round([other.rounds for _, (other, _) in pairs])
        line = pairs[-1][1][1][-1]
        rows.append(
            (
                count,
                f"{here:.3f}",
                f"{there:.3f}",
                f"{there - here:+.3f}",
                spread([median(b.rounds) - median(a.rounds) for (a, _), (b, _) in pairs]),
                f"{(line['bytes_up'] + line['bytes_down']) / 2**20:.1f}",
                f"{median(b.whole for _, (b, _) in pairs):.0f}",
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


def main(
    part: Annotated[
        list[Part] | None, typer.Option(help="What to measure; may be repeated. All by default.")
    ] = None,
    flower_python: Annotated[Path | None, typer.Option(help="Python of an environment with Flower.")] = None,
    steps: Annotated[list[int] | None, typer.Option(help="Gradient steps of a client in a round.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of each small job; the first is not counted.")] = 8,
    turns: Annotated[int, typer.Option(help="How often each competitor runs.")] = 3,
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
    with tempfile.TemporaryDirectory(dir=folder, prefix="federation-") as name:
        place = Path(name)
        if Part.SIMULATORS in parts:
            compare_simulators(place, steps or [1, 8], rounds, turns, flower_python)
        if Part.WIRE in parts:
            compare_wire(place, steps or [1, 8], rounds, turns)
    print(f"load at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    start(main, "--steps 1 --rounds 2 --turns 1")

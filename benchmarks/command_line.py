"""How long one waits for help, for a wrong job to be refused, and for a right one to be checked.

Each command is started as a process of its own, `repeats` times, in turn with another checkout of dermfed
where one is named: a machine that others use is then as busy for both. Told are medians of the time
and of the processor's seconds, and the ratio of the latter.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

import typer
from quick import start
from tables import print_conditions, print_table

ROOT = Path(__file__).parents[1]
CALL = "import sys; from dermfed import commands; sys.argv = sys.argv[1:]; getattr(commands, sys.argv[0])()"
COMMANDS = ("train", "serve", "registry", "data", "node", "diagnose")
JOBS = {
    "a key misspelt": "name: x\nextends: demo\nchanges: {stages.federate.objective.epochz: 3}\n",
    "a key given twice": "name: x\nextends: demo\nchanges:\n  seed: 1\n  seed: 2\n",
    "no YAML": "name: x\nextends: demo\nchanges: {seed: 1\n",
}


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Processes for each figure.")] = 5,
    before: Annotated[
        Path | None, typer.Option(help="Another checkout, measured in turn with this one.")
    ] = None,
) -> None:
    """Time `--help` of every command, the refusal of wrong jobs, and the check of a right one."""
    places = [ROOT, *([before.resolve()] if before else [])]
    print_conditions("Waiting at the command line", {"processes for each figure": repeats})
    with tempfile.TemporaryDirectory() as folder:
        asked = {f"dermfed-{name} --help": (name, "--help") for name in COMMANDS}
        for number, (what, text) in enumerate(JOBS.items()):
            path = Path(folder) / f"{number}.yaml"
            path.write_text(text)
            asked[f"a job with {what}" if "key" in what else f"a job that is {what}"] = ("train", str(path))
        asked["dermfed-train --check of the demo"] = ("train", "--check", "training/recipes/demo.yaml")
        rows = [[what, *figures(arguments, places, repeats)] for what, arguments in asked.items()]
    header = ["command", "seconds", "processor's seconds"]
    print_table([*header, *(["seconds before", "processor's before", "ratio"] if before else [])], rows)


def figures(arguments: Sequence[str], places: Sequence[Path], repeats: int) -> list[str]:
    """Medians of each checkout, and how many times as much the second took."""
    taken = [[timed(arguments, place) for place in places] for _ in range(repeats)]
    medians = [[median(values) for values in zip(*of, strict=True)] for of in zip(*taken, strict=True)]
    ratio = [f"{medians[1][1] / medians[0][1]:.1f}"] if len(places) > 1 else []
    return [*(f"{value:.2f}" for pair in medians for value in pair), *ratio]


def timed(arguments: Sequence[str], place: Path) -> tuple[float, float]:
    """The seconds that passed, and the processor's."""
    begun, before = perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", CALL, *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        check=False,
    )
    passed, after = perf_counter() - begun, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return passed, used


if __name__ == "__main__":
    start(main, "--repeats 1")

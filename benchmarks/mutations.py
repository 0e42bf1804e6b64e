"""How many broken lines do the tests notice? Mutation testing, by mutmut, of what we write ourselves.

Every mutant is one of our functions with one operator, number, argument or string changed; it is killed where
a test of its room fails with it. Of a room with more mutants than asked for a sample is drawn, and the score
has Wilson's 95 % interval. Messages are left alone: statements that begin with `raise` or `assert`, and
lines that hold nothing but a string. What stands outside functions (the default of a setting, a recipe) is
not mutated: tests of recipes hold those. A function that runs only while its module is imported has run
before a mutant takes its place, and survives always.

A survivor is not a defect by itself: many change nothing that could be seen (`n > 0` for `n >= 0` where
n = 0 adds nothing), and the tests of another room may see it. Read them: `--survivors` writes each as a
difference.

    python benchmarks/mutations.py --survivors survivors.diff
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from quick import need_module, print_conditions, print_table, start, write_table
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("clients", "dermfed", "personalization", "registry", "serving", "training")
# What is mutated, and the tests that are asked.
ROOMS: Mapping[str, Sequence[str]] = {
    "training/algorithms/objectives": ["tests/training/algorithms/objectives"],
    "training/algorithms/aggregators": ["tests/training/algorithms/aggregators"],
    "training/algorithms/exchanges": ["tests/training/algorithms/exchanges"],
    "personalization": ["tests/personalization"],
    "registry/bundle": ["tests/registry/bundle"],
}
MESSAGES = (r"^\s*(raise|assert)\b", r'^\s*f?"[^"]*"\s*[,)]*$')
UNMATCHED = "no such mutant"  # a name that makes mutmut stop before it tests any


@dataclass(frozen=True)
class Outcome:
    """What became of the mutants of a room.

    Attributes:
        all: how many there are.
        statuses: of each that was drawn, in mutmut's words.
    """

    all: int
    statuses: Mapping[str, str]

    @property
    def survivors(self) -> list[str]:
        """Those that no test noticed, or that no test comes by."""
        return [name for name, status in self.statuses.items() if status in ("survived", "no tests")]

    def row(self, room: str) -> tuple[object, ...]:
        """Its line of the table."""
        counts = Counter(self.statuses.values())
        drawn, noticed = len(self.statuses), len(self.statuses) - len(self.survivors)
        low, high = binomtest(noticed, drawn).proportion_ci(method="wilson")
        others = drawn - counts["killed"] - counts["survived"] - counts["no tests"]
        score = f"{noticed / drawn:.3f} [{low:.3f}, {high:.3f}]"
        return room, self.all, drawn, counts["killed"], others, counts["survived"], counts["no tests"], score


class MutatedTree:
    """A copy of the tree, set up for the mutants of one room."""

    def __init__(self, folder: Path, room: str, workers: int) -> None:
        self._folder, self._workers = folder, workers
        tracked = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split("\0")
        files = [name for name in tracked if name and (ROOT / name).is_file()]
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        beside = sorted({name.split("/")[0] for name in files} - {*PACKAGES, "tests", "pyproject.toml"})
        settings = {
            "source_paths": list(PACKAGES),
            "only_mutate": [f"{room}/*"],
            "also_copy": beside,
            "do_not_mutate_patterns": list(MESSAGES),
            "pytest_add_cli_args": ["-m", "not long and not browser", "-p", "no:cacheprovider"],
            "pytest_add_cli_args_test_selection": list(ROOMS[room]),
            "process_isolation": "forkserver",  # torch does not like to be forked after it computed
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]  # TOML reads JSON's lists
        with (folder / "pyproject.toml").open("a") as file:
            file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")

    def _mutmut(self, *arguments: str, check: bool = True) -> str:
        """What mutmut prints.

        Raises:
            SystemExit: with its last lines, when it fails.
        """
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        environment.pop("DERMFED_DATA", None)
        ended = subprocess.run(
            [sys.executable, "-m", "mutmut", *arguments],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and ended.returncode:
            said = (ended.stdout + ended.stderr).replace("\r", "\n").splitlines()[-30:]
            raise SystemExit("\n".join(["mutmut failed:", *said]))
        return ended.stdout

    def _statuses(self) -> dict[str, str]:
        lines = self._mutmut("results", "--all", "true").splitlines()
        return dict(line.strip().split(": ", 1) for line in lines if ": " in line)

    def run(self, sample: int, seed: int) -> Outcome:
        """Test so many mutants, or all where there are no more or `sample` is 0."""
        self._mutmut("run", "--max-children", str(self._workers), UNMATCHED, check=False)
        names = sorted(self._statuses())
        if not names:
            raise SystemExit(f"mutmut made no mutants in {self._folder}; run it there by hand to see why")
        drawn = random.Random(seed).sample(names, sample) if 0 < sample < len(names) else names
        self._mutmut("run", "--max-children", str(self._workers), *drawn)
        found = self._statuses()
        return Outcome(len(names), {name: found[name] for name in drawn})

    def shown(self, mutant: str) -> str:
        """The mutant as a difference."""
        return self._mutmut("show", mutant)


def main(
    rooms: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(ROOMS)}; may be repeated.")] = None,
    sample: Annotated[int, typer.Option(help="Mutants of a room at most; 0 for all.", min=0)] = 300,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    at_once: Annotated[int, typer.Option(help="Mutants tested at once.", min=1)] = 2,
    survivors: Annotated[Path | None, typer.Option(help="Write what no test noticed to this file.")] = None,
    table: Annotated[Path | None, typer.Option(help="Also write the table to this CSV.")] = None,
) -> None:
    """Test mutants and print a table."""
    need_module("mutmut", "pip install mutmut")
    print_conditions("Mutants noticed by the tests", {"drawn of a room": sample or "all", "seed": seed})
    rows, shown = [], []
    for room in rooms or ROOMS:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            tree = MutatedTree(Path(folder), room, at_once)
            outcome = tree.run(sample, seed)
            rows.append(outcome.row(room))
            if survivors is not None:
                shown += [tree.shown(name) for name in outcome.survivors]
                survivors.write_text("\n".join(shown))
    head = ("room", "mutants", "drawn", "killed", "too slow or broken", "survived", "no tests", "noticed")
    print_table(head, rows)
    if table is not None:
        write_table(table, head, rows)


if __name__ == "__main__":
    start(main, "--rooms training/algorithms/aggregators --sample 3")

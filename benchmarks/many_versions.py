"""A registry with very many versions: what `list`, `show` and `promote` cost.

One model with `versions` versions in a SQLite registry: training runs of four bundles each, for everybody
and for three subgroups, every hundredth of which was promoted. The commands are run as `dermfed-registry`
runs them, in this process, so that the interpreter's start is not in the figures: opening the registry, the
work, and the printing. Beside it the same calls on a registry that is open.

Each is measured with few versions and with many: what grows is seen.
"""

import gc
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

import typer
from click.testing import CliRunner
from quick import start
from small_model import NAME, one_of_eight
from tables import print_conditions, print_table
from typer.main import get_command

from registry.bundle.labels import Subgroup
from registry.cli.app import app
from registry.cli.versions import MOST_LISTED
from registry.registry import Registry

SUBGROUPS = (
    Subgroup(),
    *(
        Subgroup(name=name, scale="fitzpatrick", values=values)
        for name, values in {"light": ("1", "2"), "medium": ("3", "4"), "dark": ("5", "6")}.items()
    ),
)


def fill(registry: Registry, runs: range) -> None:
    """Adds the versions of these runs; every hundredth run is promoted."""
    for run in runs:
        added = registry.add([one_of_eight(run, subgroup) for subgroup in SUBGROUPS])
        if run % 100 == 0:
            numbers = [version.number for version in added]
            registry.promote(NAME, numbers, to="production", override_gates=True, reason="a benchmark")


@dataclass(frozen=True)
class Timed:
    """Milliseconds of several runs."""

    runs: list[float]

    @classmethod
    def of(cls, work: Callable[[], object], times: int) -> "Timed":
        """Runs `work` so many times."""
        taken = []
        for _ in range(times):
            began = perf_counter()
            work()
            taken.append(1000 * (perf_counter() - began))
        return cls(taken)

    def __str__(self) -> str:
        return f"{median(self.runs):.0f} ({max(self.runs):.0f})"


def command(*words: str) -> Callable[[], None]:
    """A command as a user types it, in this process."""
    run, whole = CliRunner(), get_command(app)

    def work() -> None:
        ended = run.invoke(whole, [str(word) for word in words])
        if ended.exit_code:
            raise SystemExit(f"{words}: {ended.output}")

    return work


def measure(registry: Registry, times: int) -> list[tuple[str, Timed, Timed]]:
    """Each operation: the whole command, and the same call on the registry."""
    gc.freeze()  # torch, which only the line on the machine needs, is not for the collector to look through
    count = len(registry.versions(NAME))
    newest = [count - place for place in range(3, -1, -1)]
    older = [number - 4 for number in newest]
    turns = iter(range(10**9))
    promoted = ("--to", "staging", "--override-gates", "--reason", "a benchmark")

    def promote_command() -> None:
        numbers = (newest, older)[next(turns) % 2]
        command("promote", NAME, *map(str, numbers), *promoted)()

    def promote_call() -> None:
        numbers = (newest, older)[next(turns) % 2]
        registry.promote(NAME, numbers, to="staging", override_gates=True, reason="a benchmark")

    def show_call() -> None:
        for release in registry.aliases(NAME).values():
            for version in release.versions:
                registry.manifest(version)
                registry.signatures(version)
        registry.overrides(NAME)

    return [
        (
            "list MODEL",
            Timed.of(command("list", NAME), times),
            Timed.of(lambda: registry.versions(NAME, MOST_LISTED), times),
        ),
        (
            "list MODEL --all",
            Timed.of(command("list", NAME, "--all"), times),
            Timed.of(lambda: registry.versions(NAME), times),
        ),
        ("show MODEL", Timed.of(command("show", NAME), times), Timed.of(show_call, times)),
        (
            "show MODEL --version N",
            Timed.of(command("show", NAME, "--version", str(count // 2)), times),
            Timed.of(lambda: registry.manifest(registry.version(NAME, count // 2)), times),
        ),
        ("promote MODEL N N N N", Timed.of(promote_command, times), Timed.of(promote_call, times)),
    ]


def main(
    versions: Annotated[int, typer.Option(help="How many versions there are at the end.")] = 10_000,
    times: Annotated[int, typer.Option(help="How often each is measured.")] = 15,
) -> None:
    """Measure the commands with 100 versions and with very many."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DERMFED_REGISTRY_URL"] = url = f"sqlite:///{folder / 'registry.db'}"
        os.environ["DERMFED_STORE"] = store = str(folder / "store")
        with Registry.open(url, store) as registry:
            fill(registry, range(25))
            few = measure(registry, times)
            began = perf_counter()
            fill(registry, range(25, versions // 4))
            added = perf_counter() - began
            many = measure(registry, times)
        size = (folder / "registry.db").stat().st_size
    conditions = {
        "versions": f"{versions:,} of one model, by runs of four; every hundredth run was promoted",
        "milliseconds": f"median and (longest) of {times}",
        "database": f"SQLite, {size / 2**20:.0f} MiB",
        "adding": f"{1000 * added / (versions // 4 - 25):.0f} ms a run",
    }
    print_conditions("A registry with very many versions", conditions)
    print_table(
        ["command", "100 versions", "of it the call", f"{versions:,} versions", "of it the call"],
        [[one[0], one[1], one[2], other[1], other[2]] for one, other in zip(few, many, strict=True)],
    )


if __name__ == "__main__":
    start(main, "--versions 200 --times 1")

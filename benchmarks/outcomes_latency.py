"""What keeping answers for outcomes costs those who ask.

Two services of `dermfed-serve`, each with two workers and the same release of a small model, which costs next
to nothing, so that what keeping costs is seen. One of them keeps what is needed to judge each answer later
(`DERMFED_OUTCOMES_URL`, SQLite). They are asked in turn, each of a pair first in one half of the pairs; the
thread that writes does so a fifth of a second later, while others are asked. Told is the ratio of the
medians, with its 95 % interval over pairs. Both are started several times, since which processor a service
finds itself on changes its time by more than that interval says. Criterion, set before: at most 1.02.

    python benchmarks/outcomes_latency.py
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from canary import PROMOTION, ask, draw
from in_turn import in_turn
from quick import is_quick, start
from services import TwoWorkers, running
from small_model import NAME, small_bundle
from tables import print_conditions, print_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside this file serving.py is another benchmark

TABLE = Path(__file__).parents[1] / "docs" / "results" / "tables" / "outcomes-latency.csv"
SIDES = (48, 600)


def once(pairs: int, turn: int) -> list[list[object]]:
    """The rows of two services that are started for it."""
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        addresses = []
        for which, settings in (
            ("plain", {}),
            ("kept", {"DERMFED_OUTCOMES_URL": f"sqlite:///{name}/outcomes.db"}),
        ):
            folder = Path(name) / which
            folder.mkdir()
            ours = TwoWorkers.on_a_free_port(folder, **settings)
            with ours.registry() as registry:
                registry.add([small_bundle(0)])
                registry.promote(NAME, [1], **PROMOTION)
            stack.enter_context(
                running(ours.command, f"{ours.address}/readyz", folder / "log", ours.environment)
            )
            addresses.append(ours.address)
        for side in SIDES:
            found = in_turn(*addresses, pairs, lambda seed, side=side: draw(seed, side), ask)
            rows.append([side, turn, pairs, f"{found.one:.2f}", f"{found.other:.2f}", str(found)])
    return rows


def main(
    pairs: Annotated[int, typer.Option(help="Pairs of requests of each row.")] = 1500,
    starts: Annotated[int, typer.Option(help="How often both services are started.")] = 5,
) -> None:
    """Time answers with and without the table."""
    print_conditions("Answers that are kept", {"workers": 2, "pairs": pairs, "starts": starts})
    rows = sorted(row for turn in range(1, starts + 1) for row in once(pairs, turn))
    header = ["side of the picture", "start", "pairs", "without, median ms", "with", "ratio"]
    print_table(header, rows)
    if not is_quick():
        write_table(TABLE, header, rows)


if __name__ == "__main__":
    start(main, "--pairs 10 --starts 1")

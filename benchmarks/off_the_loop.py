"""What it costs a request that a thread does what may block: rates, records; and the look at the database.

    python benchmarks/off_the_loop.py

Each pair is measured in turns in one process, so that what else the machine does falls on both. Ratios and
differences count; single figures are of the machine.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path

from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside this file serving.py is another benchmark

from quick import start
from tables import print_conditions, print_table

from registry.database import sqlite
from registry.database.connection import open_database, reading
from serving.access.gcra import Rate, RateLimiter
from serving.monitoring.decision_log.day_files import DayFiles
from serving.one_thread import OneThread

LINE = b'{"time":"2026-01-31T09:15:02.123456Z","request":"5f0c","key":"0123456789ab","status":200}\n'
RATE = Rate(per_minute=1_000_000, burst=1_000_000)


def main(rounds: int = 40, each: int = 250) -> None:
    """Prints microseconds per request on the event loop and in a thread."""
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure(Path(folder), rounds, each))
    print_conditions("Off the loop", {"rounds": rounds, "calls of each in a round": each})
    print_table(["what", "on the loop, us", "in a thread, us", "more, us"], rows)


async def measure(folder: Path, rounds: int, each: int) -> list[list[str]]:
    """The rows of the table: medians over the rounds."""
    limiter, files = RateLimiter(folder / "rates" / "keys"), DayFiles(folder / "records")
    thread = OneThread("measured", 10_000, 60.0)

    def spend() -> object:
        return limiter.spend("key", RATE)

    def append() -> None:
        files.append(LINE, date(2026, 1, 31))

    async def here(work: Callable[[], object]) -> None:
        work()

    async def there(work: Callable[[], object]) -> None:
        await thread.run(work)

    rows = []
    for name, work in (("rates", spend), ("records", append)):
        took: dict[str, list[float]] = {"here": [], "there": []}
        for _ in range(rounds):
            for where, do in (("here", here), ("there", there)):
                took[where].append(await seconds(do, work, each))
        rows.append(row(name, took["here"], took["there"]))
    thread.close(60)
    files.close()
    limiter.close()
    rows.append(row("a transaction: without, with the look", *looks(folder, rounds, each)))
    return rows


def looks(folder: Path, rounds: int, each: int) -> tuple[list[float], list[float]]:
    """Seconds of a reading transaction without and with a look at the file's inode."""
    engine = open_database(f"sqlite:///{folder / 'registry.db'}")

    def read() -> None:
        with reading(engine) as connection:
            connection.execute(text("SELECT 1"))

    look, without, with_it = sqlite.refresh, [], []
    read()
    for _ in range(rounds):
        for took, does in ((without, lambda engine: None), (with_it, look)):
            sqlite.refresh = does
            began = time.perf_counter()
            for _ in range(each):
                read()
            took.append((time.perf_counter() - began) / each)
    sqlite.refresh = look
    engine.dispose()
    return without, with_it


async def seconds(
    do: Callable[[Callable[[], object]], Awaitable[None]], work: Callable[[], object], each: int
) -> float:
    """Seconds that one piece of work takes whoever waits for it."""
    began = time.perf_counter()
    for _ in range(each):
        await do(work)
    return (time.perf_counter() - began) / each


def row(name: str, one: list[float], other: list[float]) -> list[str]:
    """A row: medians and their difference, in microseconds."""
    here, there = (1e6 * statistics.median(took) for took in (one, other))
    more = 1e6 * statistics.median(b - a for a, b in zip(one, other, strict=True))
    return [name, f"{here:.1f}", f"{there:.1f}", f"{more:.1f}"]


if __name__ == "__main__":
    start(main, "--rounds 2 --each 3")

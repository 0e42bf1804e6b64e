"""Ten million answers in the database of outcomes: what importing, figures, a page and forgetting cost.

The database is filled in bulk (`filled_outcomes`), then 100,000 outcomes are imported by `dermfed-outcomes
import` from a file, twice; figures are told by `dermfed-registry field`; a service with two workers takes
outcomes over HTTP and shows pages of answers; a year of three is forgotten by `dermfed-outcomes forget`,
while outcomes are given all the time; and a stream of gigabytes is imported through a pipe. Each in a process
of its own, as people run them.

Criteria, set before the first run: figures in 10 s, a page and an outcome over HTTP in 1 s, also while others
forget; importing 100,000 in 90 s; no more memory for 10 GB than for 100 MB, within 50 MB.

    python benchmarks/outcomes_at_scale.py --postgres postgresql://user@host/an_empty_database
"""

import csv
import datetime as dt
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Annotated

import httpx
import numpy as np
import typer
from filled_outcomes import LABELS, MALIGNANT, Row, bundle_of, fill
from quick import start
from services import TwoWorkers, running
from small_model import NAME
from sqlalchemy import text
from tables import print_conditions, print_table, write_table

from registry.database.connection import reading
from registry.outcomes.store import OutcomeStore

HEADER = ("database", "what", "figure", "unit")
ASKED = 50
LONG_LINE = 4000
"""Bytes of a line of the stream: as long as may be, or ten gigabytes would take an hour."""

FORGET_DAYS = 2 * 365
Told = list[tuple[str, str, str, str]]


def outcomes_file(path: Path, answers: Sequence[Row]) -> None:
    """Writes outcomes of answers as a pathology system exports them; most are what was answered."""
    rng = np.random.default_rng(1)
    today = dt.datetime.now(dt.UTC).date()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "label", "confirmed_by", "date"))
        for id_, day, _, _, _, label, _ in answers:
            malignant = rng.random() < (0.25 if label else MALIGNANT / 10)
            on = min(today, day + dt.timedelta(days=int(rng.integers(3, 60))))
            writer.writerow((id_, LABELS[malignant][0], "histopathology", on))


def command(module: str, *arguments: str) -> list[str]:
    """A command of ours in a process of its own."""
    return [sys.executable, "-c", f"from {module} import main; main()", *arguments]


OUTCOMES = "registry.cli.outcomes"
REGISTRY = "registry.cli.app"


def seconds_of(asked: Sequence[str], codes: Sequence[int] = (0,)) -> float:
    """How long a command takes; ends where it fails."""
    began = time.perf_counter()
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ended.returncode not in codes:
        raise SystemExit(
            f"{asked} ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    return time.perf_counter() - began


def times_of(work: Callable[[int], object], times: int) -> str:
    """Milliseconds of calls, the median and the longest."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        work(number)
        taken.append(1000 * (time.perf_counter() - began))
    return f"{median(taken):.0f} ({max(taken):.0f})"


def size(store: OutcomeStore) -> float:
    """Megabytes of the database on disk."""
    if store.engine.dialect.name == "sqlite":
        path = Path(str(store.engine.url.database))
        return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*")) / 1e6
    with reading(store.engine) as connection:
        return float(connection.scalar(text("SELECT pg_database_size(current_database())"))) / 1e6


def stream(url: str, known: Row, gigabytes: float) -> tuple[float, float]:
    """Seconds and megabytes at the most of an import of so many gigabytes from a pipe."""
    line = f"{known[0]},{LABELS[0][0]},{'histopathology'},2026-01-01".encode()
    line += b" " * (LONG_LINE - len(line) - 1) + b"\n"
    asked = command(OUTCOMES, "import", "-", "--url", url)
    began = time.perf_counter()
    process = subprocess.Popen(
        asked, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(b"id,label,confirmed_by,date\n")
    left, together = int(gigabytes * 1e9 / LONG_LINE), line * 250
    while left > 0:
        process.stdin.write(together)
        left -= 250
    status = Path(f"/proc/{process.pid}/status").read_text()  # its own rusage would begin with ours
    process.stdin.close()
    process.wait()
    peak = next(int(one.split()[1]) for one in status.splitlines() if one.startswith("VmHWM:"))
    return time.perf_counter() - began, peak / 1000


def over_http(url: str, answers: Sequence[Row], folder: Path) -> Told:
    """A service over this database: an outcome, a page, and both while a year is forgotten."""
    name = url.partition(":")[0]
    service = TwoWorkers.on_a_free_port(folder, DERMFED_OUTCOMES_URL=url)
    with service.registry() as registry:
        _, secret = registry.create_key("ward", scopes=["outcome", "operate"], per_minute=60_000)
        registry.promote(NAME, [3], to="production", override_gates=True, reason="a benchmark")
    bearer = {"Authorization": f"Bearer {secret}"}
    today = dt.datetime.now(dt.UTC).date().isoformat()
    with (
        running(service.command, f"{service.address}/readyz", folder / "log", service.environment),
        httpx.Client(base_url=service.address, headers=bearer, timeout=120) as client,
    ):

        def give(number: int) -> None:
            body = {"label": LABELS[0][0], "confirmed_by": "follow-up", "date": today, "corrects": True}
            told = client.post(f"/v1/diagnoses/{answers[number][0]}/outcome", json=body)
            told.raise_for_status()

        def look(number: int) -> None:
            client.get(f"/diagnoses/{answers[number][0]}").raise_for_status()

        found: Told = [
            (name, "an outcome over HTTP", times_of(give, ASKED), "ms, median (longest)"),
            (name, "the page of an answer", times_of(look, ASKED), "ms, median (longest)"),
        ]
        taken: list[float] = []
        over = threading.Event()
        young = [
            place for place, row in enumerate(answers) if (dt.date.today() - row[1]).days < FORGET_DAYS - 2
        ]

        def give_always() -> None:
            for place in cycle(young):
                if over.is_set():
                    return
                began = time.perf_counter()
                give(place)
                taken.append(1000 * (time.perf_counter() - began))
                over.wait(0.05)  # as fast as a ward never is

        others = threading.Thread(target=give_always)
        others.start()
        forgetting = seconds_of(command(OUTCOMES, "forget", "--days", str(FORGET_DAYS), "--url", url))
        over.set()
        others.join()
        said = f"{median(taken):.0f} ({max(taken):.0f})"
        found += [
            (name, "a year of three forgotten", f"{forgetting:.1f}", "s"),
            (name, "an outcome over HTTP meanwhile", said, "ms, median (longest)"),
        ]
    return found


def measure(url: str, answers: int, outcomes: int, gigabytes: float, folder: Path) -> Told:
    """All figures of one database."""
    name = url.partition(":")[0]
    told: Told = []

    def tell(what: str, figure: str, unit: str) -> None:
        told.append((name, what, figure, unit))
        print(f"{name}: {what}: {figure} {unit}", flush=True)

    with OutcomeStore.open(url) as store:
        began = time.perf_counter()
        filled = fill(store, answers, outcomes)
        tell("answers", f"{filled.answers:,}", "rows")
        tell("filled", f"{time.perf_counter() - began:.0f}", "s")
        tell("size", f"{size(store):,.0f}", "MB")
    file = folder / f"{name}.csv"
    outcomes_file(file, filled.sample)
    importing = command(OUTCOMES, "import", str(file), "--url", url)
    tell(f"{len(filled.sample):,} outcomes imported", f"{seconds_of(importing):.1f}", "s")
    tell("the same again", f"{seconds_of(importing):.1f}", "s")
    place = folder / name
    place.mkdir()
    service = TwoWorkers.on_a_free_port(place)
    with service.registry() as registry:
        registry.add([bundle_of(number) for number in range(1, 4)])
    options = (
        "--url",
        service.environment["DERMFED_REGISTRY_URL"],
        "--store",
        service.environment["DERMFED_STORE"],
    )
    figures = command(REGISTRY, *options, "field", NAME, "--outcomes", url)
    tell("dermfed-registry field", f"{seconds_of(figures, (0, 1)):.1f}", "s")
    little, much = stream(url, filled.sample[0], 0.01 * gigabytes), stream(url, filled.sample[0], gigabytes)
    tell(f"{0.01 * gigabytes:g} GB through a pipe", f"{little[0]:.0f} s, {little[1]:.0f} MB", "at most")
    tell(f"{gigabytes:g} GB through a pipe", f"{much[0]:.0f} s, {much[1]:.0f} MB", "at most")
    for row in over_http(url, filled.sample, place):
        tell(*row[1:])
    return told


def main(
    answers: Annotated[int, typer.Option(help="Answers in each database.")] = 10_000_000,
    outcomes: Annotated[int, typer.Option(help="Outcomes that are imported.")] = 100_000,
    gigabytes: Annotated[float, typer.Option(help="Of the stream.")] = 10.0,
    postgres: Annotated[str | None, typer.Option(help="An empty database; without it SQLite alone.")] = None,
    url: Annotated[
        str | None, typer.Option(help="One database alone, empty or full of a run before.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Write the table there, as CSV.")] = None,
) -> None:
    """Fill, import, tell and forget."""
    print_conditions("Ten million answers", {"answers": f"{answers:,}", "outcomes": f"{outcomes:,}"})
    told: Told = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        urls = [url] if url else [f"sqlite:///{folder / 'outcomes.db'}", *([postgres] if postgres else ())]
        for one in urls:
            told += measure(one, answers, outcomes, gigabytes, folder)
    print_table(HEADER, told)
    if table:
        write_table(table, HEADER, told)


if __name__ == "__main__":
    start(main, "--answers=20000 --outcomes=2000 --gigabytes=0.05")

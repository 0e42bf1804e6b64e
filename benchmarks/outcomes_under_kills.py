"""Imports of outcomes that are killed at random moments and begun again: is anything lost or doubled?

A file of new outcomes, the same ones again, corrections, some that were taken back, and wrong lines is
imported by a process that is killed (SIGKILL) somewhere in its work, and begun again, until one comes to its
end. What the database holds then is held against that of an import that nobody disturbed: every row of every
outcome but its running number, corrected ones too.

Criterion, set before: no difference, after at least 30 kills.

    python benchmarks/outcomes_under_kills.py --postgres postgresql://user@host/an_empty_database
"""

import datetime as dt
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from quick import start
from sqlalchemy import delete, func, select
from tables import print_conditions, print_table, write_table

from registry.database.connection import reading, writing
from registry.outcomes.store import Answering, KeptAnswer, OutcomeRow, OutcomeStore

HEADER = ("database", "lines", "imports", "kills", "kills in the midst", "rows at the end", "differences")
ANSWERING = Answering("demo", 1, "global", "dark", (("MEL", True), ("NV", False)))
IMPORT = "from registry.cli.outcomes import main; main()"
TODAY = dt.datetime.now(dt.UTC).date()
Rows = Counter[tuple[object, ...]]


def fill(store: OutcomeStore, answers: int) -> list[str]:
    """Keeps answers; returns their ids."""
    ids = [str(uuid.uuid4()) for _ in range(answers)]
    said = ("above", "report", "MEL", frozenset({"MEL"}))
    store.record([KeptAnswer(id_, TODAY, ANSWERING, None, *said) for id_ in ids])
    return ids


def write_file(path: Path, ids: list[str]) -> int:
    """Writes outcomes of all answers, each kind of line apart from what it is about; returns how many."""
    rng = random.Random(0)
    lines = [f"{id_},{rng.choice(('MEL', 'NV'))},histopathology,{TODAY},no" for id_ in ids]
    lines += [f"{id_},BKL,histopathology,{TODAY},no" for id_ in ids[::50]]
    lines += [f"{id_},NV,dermatologist,{TODAY},yes" for id_ in ids[::7]]
    lines += [f"{id_},,follow-up,{TODAY},no" for id_ in ids[1::11]]
    lines += lines[: len(ids) // 10]
    path.write_text("id,label,confirmed_by,date,corrects\n" + "".join(f"{line}\n" for line in lines))
    return len(lines)


def rows(store: OutcomeStore) -> Rows:
    """Every row of the outcomes, but its number."""
    with reading(store.engine) as connection:
        return Counter(tuple(row)[1:] for row in connection.execute(select(*OutcomeRow.__table__.columns)))


def count(store: OutcomeStore) -> int:
    """How many rows there are."""
    with reading(store.engine) as connection:
        return connection.scalar(select(func.count()).select_from(OutcomeRow)) or 0


def once(
    url: str, file: Path, store: OutcomeStore, whole: int, rng: random.Random | None
) -> tuple[bool, bool]:
    """An import, killed somewhere where there is an `rng`; whether it was, and in the midst of its rows."""
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORT, "import", str(file), "--url", url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if rng is not None:
        before = count(store)
        until = before + rng.randint(0, max(whole // 12, 1))  # rows, for the machine may be slow
        while process.poll() is None and count(store) < until:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))  # anywhere in what it does
        process.send_signal(signal.SIGKILL)
    code = process.wait()
    if code not in (0, 1, -signal.SIGKILL):
        raise SystemExit(f"an import ended with {code}")
    return code == -signal.SIGKILL, 0 < count(store) < whole


def tried(url: str, answers: int, kills: int, folder: Path, seed: int) -> tuple[object, ...]:
    """The row of one database."""
    rng, file = random.Random(seed), folder / f"{url.partition(':')[0]}.csv"
    killed, inside, imports, differences = 0, 0, 0, 0
    with OutcomeStore.open(url) as store:
        lines = write_file(file, fill(store, answers))
        once(url, file, store, 0, None)
        undisturbed = rows(store)
        while killed < kills:
            with writing(store.engine) as connection:
                connection.execute(delete(OutcomeRow))
            going = True
            while going:
                left = killed < kills
                was, midst = once(url, file, store, undisturbed.total(), rng if left else None)
                killed, inside, imports, going = killed + was, inside + (was and midst), imports + 1, was
            now = rows(store)
            differences += (now - undisturbed).total() + (undisturbed - now).total()
    return url.partition(":")[0], lines, imports, killed, inside, undisturbed.total(), differences


def main(
    answers: Annotated[int, typer.Option(help="Answers, each with an outcome.")] = 20_000,
    kills: Annotated[int, typer.Option(help="At least so many, of each database.")] = 36,
    postgres: Annotated[str | None, typer.Option(help="An empty database; without it SQLite alone.")] = None,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    table: Annotated[Path | None, typer.Option(help="Write the table there, as CSV.")] = None,
) -> None:
    """Kill, begin again, compare."""
    print_conditions("Imports under kills", {"answers": answers, "kills": kills})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        urls = [f"sqlite:///{folder / 'outcomes.db'}", *([postgres] if postgres else ())]
        found = [tried(url, answers, kills, folder, seed) for url in urls]
    print_table(HEADER, found)
    if table:
        write_table(table, HEADER, found)
    if any(row[-1] for row in found):
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--answers=3000 --kills=2")

"""A service under load while its workers, its disk, its clock, its registry and its callers do their worst.

`dermfed-serve` with two workers over three releases of a small model; eight callers, each of whom asks again
when it is answered, over connections that stay open. In an order drawn from a seed, each several times:

- a release is promoted, or taken back;
- a worker, or a process below one, is killed with `kill -9`;
- the disk of the records is full for some seconds (a small tmpfs; only where one can be mounted);
- the clock jumps 500 days ahead for a second and a half (libfaketime; only where it is installed);
- the registry's file is replaced by a copy in which another release is in production, or moved away and back;
- callers send pictures that cost a decoder minutes or gigabytes;
- SIGTERM ends the service, and it is started again.

A request is lost where nothing is answered or neither 200 nor 503. Lost may be what a killed worker held, and
nothing else; every record that was there before the clock jumped has to be there afterwards; and at the end
the service answers with what is in production. Exits with 1 otherwise.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import httpx
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside this file serving.py is another benchmark

from quick import start
from services import TwoWorkers, running
from small_model import NAME, small_bundle, small_picture
from tables import print_conditions, print_table
from workers import below, workers

from registry.registry import Registry
from serving.monitoring.day_files import NAME as NAME_OF_DAY

CALLERS = 8
PREFERRED = (Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"),)
NOW, FAR = "+0", "+500d"
MAY_LOSE = {"a worker killed": CALLERS}
"""How many requests a disturbance may lose, each time: a worker holds no more than there are callers."""


@dataclass(frozen=True)
class Asked:
    """One request: when it began and ended, and what came; 0 where nothing did."""

    began: float
    ended: float
    status: int
    why: str = ""


@dataclass
class Callers:
    """Callers that go on until they are told to stop; while the service is down on purpose they pause."""

    address: str
    asked: list[Asked] = field(default_factory=list)
    up: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> list[threading.Thread]:
        """Starts to ask."""
        threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        return threads

    def _ask(self) -> None:
        content, kind = small_picture("JPEG"), {"Content-Type": "image/jpeg"}
        while not self.over.is_set():
            self.up.wait(1)
            with httpx.Client(base_url=self.address, timeout=60, trust_env=False) as client:
                while self.up.is_set() and not self.over.is_set():
                    began = time.monotonic()
                    try:
                        told = client.post("/v1/diagnoses", content=content, headers=kind)
                        self.asked.append(Asked(began, time.monotonic(), told.status_code))
                    except httpx.ConnectError:
                        time.sleep(0.02)  # the port is closed: nothing was sent, and so nothing lost
                        break
                    except httpx.HTTPError as error:
                        self.asked.append(Asked(began, time.monotonic(), 0, repr(error)))
                        break


@dataclass
class Chaos:
    """What is disturbed, and how.

    Attributes:
        service: how it is started.
        folder: where everything lies.
        releases: the versions of each release.
    """

    service: TwoWorkers
    folder: Path
    callers: Callers
    releases: list[list[int]]
    pid: int = 0
    clock: Path | None = None
    disk: Path | None = None
    wrong: list[str] = field(default_factory=list)

    def promote(self) -> None:
        """Another release."""
        with self.service.registry() as registry:
            chosen = random.choice(self.releases)
            registry.promote(NAME, chosen, to="production", reason="a benchmark", override_gates=True)

    def roll_back(self) -> None:
        """The release before, or another where there is none."""
        with self.service.registry() as registry:
            try:
                registry.rollback(NAME, alias="production", reason="a benchmark")
            except Exception:  # noqa: BLE001 - nothing before: go on from here
                self.promote()

    def kill_worker(self) -> None:
        """A worker dies, and is back before anything else happens."""
        before = workers(self.pid)
        os.kill(random.choice(before), signal.SIGKILL)
        wait_for(lambda: len(set(workers(self.pid)) - set(before)) == 1, "a new worker")

    def kill_below(self) -> None:
        """A process below a worker dies, where there is any."""
        under = [pid for worker in workers(self.pid) for pid in below(worker)]
        if under:
            os.kill(random.choice(under), signal.SIGKILL)

    def fill_disk(self) -> None:
        """The disk of the records is full for three seconds."""
        assert self.disk is not None
        filler = self.disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(2**16))
        except OSError:
            time.sleep(3)
        filler.unlink()

    def jump(self) -> None:
        """The clock is 500 days ahead for a second and a half."""
        assert self.clock is not None
        assert self.disk is not None
        before = {path.name for path in self.disk.glob("*.jsonl")}
        self.clock.write_text(FAR)
        time.sleep(1.5)
        self.clock.write_text(NOW)
        time.sleep(1)
        if gone := before - {path.name for path in self.disk.glob("*.jsonl")}:
            self.wrong.append(f"after the clock jumped these records were gone: {sorted(gone)}")

    def replace_registry(self) -> None:
        """The registry's file is a copy in which another release is in production."""
        database, copy = self.folder / "registry.db", self.folder / "copy.db"
        with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        with Registry.open(f"sqlite:///{copy}", self.service.environment["DERMFED_STORE"]) as registry:
            chosen = random.choice(self.releases)
            registry.promote(NAME, chosen, to="production", reason="a benchmark", override_gates=True)
        for rest in ("-wal", "-shm"):
            (self.folder / f"registry.db{rest}").unlink(missing_ok=True)
        copy.replace(database)

    def move_registry(self) -> None:
        """The registry's file is away for half a second."""
        database, offline = self.folder / "registry.db", self.folder / "away.db"
        database.rename(offline)
        time.sleep(0.5)
        offline.rename(database)

    def send_bombs(self) -> None:
        """Hostile pictures, each over a connection of its own; whatever is answered."""
        from tests.serving.hostile.costly import memory_bomb, scan_bomb

        sent = [("image/jpeg", scan_bomb(300, 4000)), ("image/webp", memory_bomb())] * 2
        for kind, content in sent:
            threading.Thread(target=self._send, args=(kind, content), daemon=True).start()
        time.sleep(5)

    def _send(self, kind: str, content: bytes) -> None:
        try:
            url = f"{self.callers.address}/v1/diagnoses"
            httpx.post(url, content=content, headers={"Content-Type": kind}, timeout=120, trust_env=False)
        except httpx.HTTPError as error:
            self.wrong.append(f"a hostile picture got no answer: {error!r}")


def wait_for(there: Callable[[], bool], what: str) -> None:
    """Waits up to a minute."""
    until = time.monotonic() + 60
    while not there():
        if time.monotonic() > until:
            raise SystemExit(f"there is not {what} after a minute")
        time.sleep(0.05)


def main(
    times: Annotated[int, typer.Option(help="How often each disturbance.")] = 3,
    seed: Annotated[int, typer.Option(help="Of their order.")] = 0,
    pause: Annotated[float, typer.Option(help="Seconds between them.")] = 3.0,
) -> None:
    """Disturb a service under load, and count."""
    random.seed(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        disk = small_disk(folder / "records")
        clock = next((path for path in PREFERRED if path.exists()), None)
        settings = {"DERMFED_SERVE_REQUESTS_PER_MINUTE": "0"}
        if clock is not None:
            (folder / "clock").write_text(NOW)
            settings |= {
                "LD_PRELOAD": str(clock),
                "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        service = TwoWorkers.on_a_free_port(folder, **settings)
        with service.registry() as registry:
            releases = [[one.number for one in registry.add([small_bundle(seed)])] for seed in range(3)]
            registry.promote(NAME, releases[0], to="production", reason="a benchmark", override_gates=True)
        chaos = Chaos(service, folder, Callers(service.address), releases)
        if disk:
            week = datetime.now(UTC).date() - timedelta(days=7)
            (folder / "records" / NAME_OF_DAY.format(week.isoformat())).write_text("{}\n")
            chaos.disk = folder / "records"
        chaos.clock = folder / "clock" if clock is not None and disk else None
        try:
            done = disturb(chaos, times, pause)
            good = tell(chaos, done)
        finally:
            if disk:
                subprocess.run(["umount", "-l", str(folder / "records")], check=False)
    if not good:
        raise typer.Exit(1)


def small_disk(folder: Path) -> bool:
    """Mounts 64 megabytes there; whether that is allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


@dataclass(frozen=True)
class Done:
    """A disturbance: what, and from when to when."""

    what: str
    began: float
    ended: float


def disturb(chaos: Chaos, times: int, pause: float) -> list[Done]:
    """All disturbances, in an order by chance."""
    kinds: dict[str, Callable[[], None]] = {
        "a promotion": chaos.promote,
        "a rollback": chaos.roll_back,
        "a worker killed": chaos.kill_worker,
        "a process below one killed": chaos.kill_below,
        "the registry replaced": chaos.replace_registry,
        "the registry away": chaos.move_registry,
        "hostile pictures": chaos.send_bombs,
        **({"a full disk": chaos.fill_disk} if chaos.disk else {}),
        **({"a clock that jumps": chaos.jump} if chaos.clock else {}),
        "SIGTERM": lambda: None,
    }
    plan = [what for what in kinds for _ in range(times)]
    random.shuffle(plan)
    done: list[Done] = []
    threads = chaos.callers.start()
    ready = f"{chaos.service.address}/readyz"
    while plan:
        with running(
            chaos.service.command, ready, chaos.folder / "log", chaos.service.environment
        ) as process:
            chaos.pid = process.pid
            wait_for(lambda: len(workers(process.pid)) == 2, "both workers")
            chaos.callers.up.set()
            time.sleep(pause)
            while plan and (what := plan.pop()) != "SIGTERM":
                began = time.monotonic()
                kinds[what]()
                time.sleep(pause)
                done.append(Done(what, began, time.monotonic()))
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(90)
            chaos.callers.up.clear()
            time.sleep(1)
            done.append(Done("SIGTERM", began, time.monotonic()))
    chaos.callers.over.set()
    for thread in threads:
        thread.join()
    return done


def tell(chaos: Chaos, done: list[Done]) -> bool:
    """Prints the table; whether nothing is wrong."""
    print_conditions("A service under disturbance", {"callers": CALLERS, "workers": 2})
    counted: dict[str, Counter[str]] = {}
    for one in chaos.callers.asked:
        during = next((each.what for each in done if each.began <= one.ended <= each.ended), "between")
        kind = {200: "200", 503: "503"}.get(one.status, "lost")
        counted.setdefault(during, Counter())[kind] += 1
        if kind == "lost":
            print(f"lost during {during}: {one.status} {one.why}")
    often = Counter(each.what for each in done)
    rows = []
    for what, n in (*often.items(), ("between", 0)):
        told = counted.get(what, Counter())
        rows.append([what, n or "-", told["200"], told["503"], told["lost"]])
        if told["lost"] > MAY_LOSE.get(what, 0) * n:
            chaos.wrong.append(f"{told['lost']} requests lost by: {what}")
    print_table(["what", "times", "200", "503", "lost"], rows)
    for line in dict.fromkeys(chaos.wrong):
        print(f"WRONG: {line}")
    return not chaos.wrong


if __name__ == "__main__":
    start(main, "--times 1 --pause 0.5")

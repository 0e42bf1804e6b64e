"""Promotions, rollbacks and the sudden death of a worker, while requests keep coming.

`dermfed-serve` with two workers over a registry with three releases of a small model, each with a version for
everybody and one for dark skin; eight callers, each of whom asks again when it is answered.

- Releases are promoted and rolled back in turn, after pauses of many lengths. Counted are requests that
  failed, and answers whose version was current at no moment between two seconds before the request began and
  its end; told is how long after a change the release before it still answered somebody who then asked.
- A worker is killed with `kill -9`. Counted are the requests that failed, and of them those that were sent
  when it was dead already; told is when there are two workers again.

Ends with exit code 1 if a count that has to be zero is not.
"""

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated

import httpx
import typer
from quick import start
from services import TwoWorkers, running
from small_model import NAME, small_bundle, small_picture
from tables import print_conditions, print_table
from workers import alive, workers

from registry.bundle.labels import Subgroup
from registry.registry import Registry

SLACK = 2.0
"""How long before a request began its answer's version may have been replaced; seconds."""

CALLERS = 8
DARK = Subgroup(name="dark", scale="fitzpatrick", values=("5", "6"))


@dataclass
class Reign:
    """A release in production: from when it may have been current, and until when."""

    versions: frozenset[int]
    began: float
    ended: float = float("inf")


@dataclass(frozen=True)
class Answer:
    """What a caller got: when it asked and was answered, and by which version; None where it failed."""

    began: float
    ended: float
    version: int | None
    failure: str = ""


@dataclass
class Callers:
    """Ask until they are told to stop."""

    address: str
    answers: list[Answer] = field(default_factory=list)

    def __enter__(self) -> "Callers":
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(tone,)) for tone in ("", "5") * (CALLERS // 2)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, tone: str) -> None:
        content, kind = small_picture("JPEG"), {"Content-Type": "image/jpeg"}
        with httpx.Client(base_url=self.address, timeout=60, trust_env=False) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    told = client.post(
                        "/v1/diagnoses", content=content, params={"skin_tone": tone}, headers=kind
                    )
                    told.raise_for_status()
                    version, failure = told.json()["model"]["version"], ""
                except httpx.HTTPError as error:
                    version, failure = None, repr(error)
                self.answers.append(Answer(began, time.monotonic(), version, failure))


def change(reigns: list[Reign], registry: Registry, make: Callable[[], object]) -> None:
    """Makes a change in production and writes down what reigns from then on."""
    began = time.monotonic()
    make()
    current = frozenset(one.number for one in registry.require_release(NAME, "production").versions)
    if reigns:
        reigns[-1].ended = time.monotonic()
    reigns.append(Reign(current, began))


def out_of_date(answer: Answer, reigns: list[Reign]) -> bool:
    """Whether its version was current at no moment that counts."""
    return not any(
        answer.version in reign.versions
        and reign.began <= answer.ended
        and reign.ended >= answer.began - SLACK
        for reign in reigns
    )


def lingering(answers: list[Answer], reigns: list[Reign]) -> list[float]:
    """For each change, how long after it somebody asked who was answered by what it replaced; seconds."""
    found = []
    for before, after in pairwise(reigns):
        old = before.versions - after.versions
        late = [
            one.began - before.ended
            for one in answers
            if one.version in old and before.ended <= one.began < after.ended
        ]
        found.append(max(late, default=0.0))
    return found


def promotions(registry: Registry, address: str, count: int) -> bool:
    """So many promotions and as many rollbacks under load; whether all was as it has to be."""
    releases = []
    for seed in range(3):
        made = registry.add([small_bundle(seed), small_bundle(seed, DARK)])
        releases.append([version.number for version in made])
    reigns: list[Reign] = []
    pauses = random.Random(0)

    def promote(numbers: list[int]) -> None:
        registry.promote(NAME, numbers, to="production", reason="a benchmark", override_gates=True)

    change(reigns, registry, lambda: promote(releases[0]))
    wait_until_ready(address)
    with Callers(address) as callers:
        for turn in range(count):
            time.sleep(pauses.uniform(0.3, 4))
            change(reigns, registry, lambda turn=turn: promote(releases[1 + turn % 2]))
            time.sleep(pauses.uniform(0.3, 4))
            change(
                reigns, registry, lambda: registry.rollback(NAME, alias="production", reason="a benchmark")
            )
        time.sleep(4)
    failed = [one for one in callers.answers if one.version is None]
    stale = [one for one in callers.answers if one.version is not None and out_of_date(one, reigns)]
    late = lingering(callers.answers, reigns)
    print_table(
        ["changes", "requests", "failed", "out of date", "old release last asked, median", "at most"],
        [
            [
                f"{count} promotions, {count} rollbacks",
                len(callers.answers),
                len(failed),
                len(stale),
                f"{median(late):.2f} s",
                f"{max(late):.2f} s",
            ]
        ],
    )
    for one in [*failed, *stale][:5]:
        print(one)
    return not failed and not stale


def killing(process: int, address: str, count: int) -> bool:
    """Workers are killed under load; whether only what was in flight was lost, and all came back."""
    rows, good = [], True
    for _ in range(count):
        with Callers(address) as callers:
            time.sleep(2)
            before = workers(process)
            killed = time.monotonic()
            os.kill(before[0], signal.SIGKILL)
            while alive(before[0]):
                time.sleep(0.001)
            dead = time.monotonic()
            while len(left := [one for one in workers(process) if one != before[0]]) < 2:
                time.sleep(0.05)
            respawned = time.monotonic()
            # It is back when it answers, which another may do in its place: when it has opened the registry.
            time.sleep(10)
        failed = [one for one in callers.answers if one.version is None]
        # Whoever asked before and got no answer was in flight; nobody who asked later may fail.
        later = [one for one in failed if one.began > dead]
        good = good and not later and len(failed) <= CALLERS and len(left) == 2
        rows.append(
            [
                len(callers.answers),
                len(failed),
                len(later),
                f"{respawned - killed:.1f} s",
                sum(one.began > dead for one in callers.answers) - len(later),
            ]
        )
        for one in later[:5]:
            print(f"{one.began - dead:.3f} s after: {one}")
    print_table(
        ["requests", "lost", "of them sent to the dead", "a new worker after", "answered since"],
        rows,
    )
    return good


def wait_until_ready(address: str) -> None:
    """Until both workers have something to serve."""
    ready = 0
    while ready < 20:
        # A connection of its own each time: the kernel hands it to either worker.
        ready = ready + 1 if httpx.get(f"{address}/readyz", trust_env=False).status_code == 200 else 0


def main(
    count: Annotated[int, typer.Option(help="Promotions, and as many rollbacks.")] = 10,
    kills: Annotated[int, typer.Option(help="Workers that are killed, one after another.")] = 3,
) -> None:
    """Promote, roll back, kill; count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = TwoWorkers.on_a_free_port(folder)
        alive_at = f"{ours.address}/livez"
        with (
            ours.registry() as registry,
            running(ours.command, alive_at, folder / "log", ours.environment) as process,
        ):
            print_conditions("Promotions and deaths under load", {"callers": CALLERS, "workers": 2})
            good = promotions(registry, ours.address, count)
            good = killing(process.pid, ours.address, kills) and good
    if not good:
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--count 1 --kills 1")

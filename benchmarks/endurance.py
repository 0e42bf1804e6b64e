"""A hundred thousand requests, and the memory of each worker while they are answered.

`dermfed-serve` with two workers over a small model, asked by some callers at once: small JPEG, PNG and WebP
pictures, each as a body and in a form, and among them what has to be refused: bytes that are no picture, a
picture that ends early, a wrong type, an unknown parameter, a path that is not there. Every answer has to be
of the status that is due to it. Callers make new connections now and then, so that both workers get some.

The table has the resident memory of each worker after so many requests. The first tenth is for warming up:
memory is flat when a worker holds no more at the end than then, but for `--slack`. Ends with exit code 1
otherwise, or if a status was wrong.
"""

import asyncio
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Annotated

import aiohttp
import typer
from quick import start
from services import TwoWorkers, running
from small_model import NAME, small_bundle, small_picture
from tables import print_conditions, print_table
from workers import resident, workers

CONNECTED = 20
"""Requests over one connection."""


@dataclass(frozen=True)
class Request:
    """What is asked, and the status that is due to it."""

    status: int
    path: str = "/v1/diagnoses?skin_tone=3"
    kind: str = "image/jpeg"
    content: bytes = b""
    form: bool = False


def requests() -> list[Request]:
    """Every kind of request: one in five has to be refused."""
    pictures = [
        (kind, small_picture(form, side, seed))
        for seed, side in enumerate((32, 64, 200))
        for form, kind in (("JPEG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp"))
    ]
    good = [
        Request(200, kind=kind, content=content, form=form)
        for kind, content in pictures
        for form in (False, True)
    ]
    content = pictures[0][1]
    bad = [
        Request(400, content=b"\xff\xd8\xff" + bytes(2000)),
        Request(400, content=content[: len(content) // 2]),
        Request(415, kind="text/plain", content=content),
        Request(422, path="/v1/diagnoses?tone=3", content=content),
        Request(404, path="/nothing", content=content),
    ]
    return good + bad


@dataclass
class Course:
    """What happened so far."""

    left: int
    every: int
    mark: Callable[[int], None]
    done: int = 0
    statuses: Counter[tuple[int, int]] = field(default_factory=Counter)

    async def ask(self, address: str, chosen: Iterator[Request]) -> None:
        """One caller."""
        while self.left > 0:
            async with aiohttp.ClientSession() as session:
                await self._ask(session, address, chosen)

    async def _ask(self, session: aiohttp.ClientSession, address: str, chosen: Iterator[Request]) -> None:
        for _ in range(CONNECTED):
            if self.left <= 0:
                return
            self.left -= 1
            one = next(chosen)
            body: bytes | aiohttp.FormData = one.content
            headers = {"Content-Type": one.kind}
            if one.form:
                body, headers = aiohttp.FormData(), {}
                body.add_field("image", one.content, filename="lesion", content_type=one.kind)
            async with session.post(address + one.path, data=body, headers=headers) as answer:
                await answer.read()
            self.statuses[one.status, answer.status] += 1
            self.done += 1
            if self.done % self.every == 0:
                self.mark(self.done)


async def drive(course: Course, address: str, callers: int) -> None:
    """All callers."""
    kinds, rng = requests(), random.Random(0)
    chosen = (rng.choice(kinds) for _ in itertools.count())
    await asyncio.gather(*(course.ask(address, chosen) for _ in range(callers)))


def main(
    count: Annotated[int, typer.Option(min=20, help="Requests in all.")] = 100_000,
    callers: Annotated[int, typer.Option(help="Requests at once.")] = 16,
    slack: Annotated[float, typer.Option(help="How much more a worker may hold at the end; MiB.")] = 8.0,
) -> None:
    """Ask, and watch the workers' memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = TwoWorkers.on_a_free_port(folder, DERMFED_SERVE_REQUESTS_PER_MINUTE="0")
        with ours.registry() as registry:
            registry.add([small_bundle(0)])
            registry.promote(NAME, [1], to="production", override_gates=True, reason="a benchmark")
        ready = f"{ours.address}/readyz"
        with running(ours.command, ready, folder / "log", ours.environment) as service:
            conditions = {"requests": count, "callers": callers, "workers": 2}
            print_conditions("Memory over many requests", conditions)
            rows: list[tuple[int, dict[int, float]]] = []

            def mark(done: int) -> None:
                rows.append((done, {pid: resident(pid) for pid in workers(service.pid)}))

            course = Course(count, count // 10, mark)
            began = perf_counter()
            asyncio.run(drive(course, ours.address, callers))
            seconds = perf_counter() - began
    told = [[done, *(f"{mib:.1f}" for mib in held.values())] for done, held in rows]
    print_table(["after requests", *(f"worker {place + 1}, MiB" for place in range(2))], told)
    wrong = sum(n for (due, got), n in course.statuses.items() if due != got)
    print(f"{count / seconds:.0f} requests a second; {wrong} answers with another status than is due")
    grown = max(rows[-1][1][pid] - held for pid, held in rows[0][1].items())
    print(f"the worker that grew most since the first tenth grew by {grown:.1f} MiB")
    if wrong or grown > slack:
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--count 200 --callers 4 --slack 1000")

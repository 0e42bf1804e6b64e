"""Good pictures while hostile ones are sent: how long they wait, how many are lost, what memory it takes.

`dermfed-serve` with one worker is asked for good pictures at half of what it can answer, as they come and
whether or not earlier ones are answered. Beside them four callers with another key send hostile pictures,
each the next one when it is answered: first none, then JPEGs of two thousand scans, the same inside DICOM,
lossless WebP of seven thousand pixels a side, and at last pictures that a mutator makes of sound ones (of
DERMFED_DATA where it is set, else drawn ones), and of DICOM, HEIC and AVIF.

A good picture is lost
where no answer comes within a minute, or one that is neither 200 nor 503.
"""

import asyncio
import itertools
import os
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Annotated

import aiohttp
import numpy as np
import psutil
import typer
from quick import print_conditions, print_table, start
from services import NAME, SIZE, free_port, running, small_bundle, small_picture

from registry.bundle.pictures.rule import PictureRule
from registry.registry import Registry

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

HOSTILE_CALLERS = 4
PATIENCE = 60.0
"""Seconds that a caller waits for an answer."""

MUTATED, ARCHIVED = 2000, 300
"""Pictures that the mutator makes, of those of cameras and of archives and phones; then they come again."""


@dataclass
class Heard:
    """What was answered in one phase.

    Attributes:
        good: seconds that good pictures took which were answered 200.
        refused: good pictures that were answered 503.
        lost: good pictures that were not answered, by what came instead.
        hostile: statuses of hostile ones; 0 where none came in time.
        memory: most that all processes of the service held together; MiB, each page counted once.
    """

    good: list[float] = field(default_factory=list)
    refused: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    hostile: Counter[int] = field(default_factory=Counter)
    memory: float = 0.0

    def row(self, name: str) -> list[str]:
        """A row of the table."""
        taken = np.array(self.good or [np.nan]) * 1000
        hostile = ", ".join(f"{n} x {status or 'none'}" for status, n in sorted(self.hostile.items()))
        return [
            name,
            f"{len(self.good):,}",
            *(f"{np.percentile(taken, q):.0f}" for q in (50, 99)),
            f"{taken.max():.0f}",
            str(self.refused),
            str(sum(self.lost.values())),
            f"{self.memory:.0f}",
            hostile or "-",
        ]


async def ask_good(session: aiohttp.ClientSession, url: str, content: bytes, heard: Heard) -> None:
    """One good picture."""
    began = perf_counter()
    try:
        async with session.post(url, data=content, headers={"Content-Type": "image/jpeg"}) as answer:
            await answer.read()
            if answer.status == 200:
                heard.good.append(perf_counter() - began)
            elif answer.status == 503:
                heard.refused += 1
            else:
                heard.lost[str(answer.status)] += 1
    except (aiohttp.ClientError, TimeoutError) as error:
        heard.lost[type(error).__name__] += 1


async def ask_hostile(
    url: str, key: dict[str, str], chosen: Iterator[tuple[str, bytes]], until: float, heard: Heard
) -> None:
    """One caller who sends hostile pictures; each over a connection of its own."""
    while perf_counter() < until:
        kind, content = next(chosen)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE), headers=key) as session,
                session.post(url, data=content, headers={"Content-Type": kind}) as answer,
            ):
                await answer.read()
                heard.hostile[answer.status] += 1
        except (aiohttp.ClientError, TimeoutError):
            heard.hostile[0] += 1


async def capacity(url: str, key: dict[str, str], content: bytes, seconds: float) -> float:
    """Good pictures a second that eight callers get answered."""
    heard, until = Heard(), perf_counter() + seconds

    async def again(session: aiohttp.ClientSession) -> None:
        while perf_counter() < until:
            await ask_good(session, url, content, heard)

    async with aiohttp.ClientSession(headers=key) as session:
        await asyncio.gather(*(again(session) for _ in range(8)))
    if heard.lost or not heard.good:
        raise SystemExit(f"good pictures alone are not answered: {heard.lost}")
    return len(heard.good) / seconds


async def phase(
    url: str,
    keys: list[dict[str, str]],
    content: bytes,
    rate: float,
    seconds: float,
    hostile: Sequence[tuple[str, bytes]],
) -> Heard:
    """Good pictures at this rate, and hostile ones beside them."""
    heard, chance, began = Heard(), random.Random(0), perf_counter()
    chosen = itertools.cycle(hostile)
    senders = [
        asyncio.create_task(ask_hostile(url, keys[1], chosen, began + seconds, heard))
        for _ in range(HOSTILE_CALLERS if hostile else 0)
    ]
    timeout = aiohttp.ClientTimeout(PATIENCE)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=keys[0]) as session:
        asked, due = [], began
        while (due := due + chance.expovariate(rate)) < began + seconds:
            await asyncio.sleep(max(0.0, due - perf_counter()))
            asked.append(asyncio.create_task(ask_good(session, url, content, heard)))
        await asyncio.gather(*asked)
    await asyncio.gather(*senders)
    return heard


def memory(root: int) -> float:
    """What a process and all that descend from it take, pages that several share counted in parts; MiB."""
    total = 0.0
    for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
        with suppress(psutil.Error):  # it has ended
            total += process.memory_full_info().pss / 2**20
    return total


class Watch:
    """Looks at the memory of a process and all below it, several times a second."""

    def __init__(self, root: int) -> None:
        """Starts to look."""
        self.most = 0.0
        self._root, self._over = root, threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            self.most = max(self.most, memory(self._root))

    def end(self) -> float:
        """Stops, and says the most."""
        self._over.set()
        return self.most


def phases(scans: int, side: int) -> dict[str, list[tuple[str, bytes]]]:
    """Hostile pictures by what they are, each with its media type."""
    from tests.serving.hostile.archived import archived
    from tests.serving.hostile.costly import dicom_scan_bomb, memory_bomb, scan_bomb
    from tests.serving.hostile.mutated import mutated
    from tests.serving.hostile.real import real_pictures
    from tests.serving.hostile.spoilt import SOUND

    sound = real_pictures(60) if os.environ.get("DERMFED_DATA") else [whole for _, whole, _ in SOUND.values()]
    return {
        "none": [],
        f"JPEG, {scans:,} scans": [("image/jpeg", scan_bomb(scans, side))],
        "the same in DICOM": [("application/dicom", dicom_scan_bomb(scans, side))],
        "lossless WebP": [("image/webp", memory_bomb(side))],
        "mutated": [(one.kind, one.content) for one in mutated(sound, MUTATED)],
        "mutated DICOM, HEIC and AVIF": [(one.kind, one.content) for one in mutated(archived(), ARCHIVED)],
    }


def main(
    seconds: Annotated[float, typer.Option(help="Of each phase but the last.")] = 30,
    mutated: Annotated[float, typer.Option(help="Seconds of the phase with mutated pictures.")] = 600,
    scans: Annotated[int, typer.Option(help="Of a JPEG that is mostly scans.")] = 2000,
    side: Annotated[int, typer.Option(help="Pixels of its sides.")] = 7000,
    only: Annotated[str, typer.Option(help="Measure only phases whose name holds this.")] = "",
) -> None:
    """Ask for good pictures while hostile ones are sent."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for kind, sent in [one for one in phases(scans, side).items() if only in one[0]]:
            rows.append(measure(Path(tempfile.mkdtemp(dir=name)), kind, sent, seconds, mutated))
    print_conditions(
        "Good pictures while hostile ones are sent",
        {
            "good": "JPEG of noise, 300 x 300, at half of what eight callers get answered",
            "hostile": f"{HOSTILE_CALLERS} callers, one picture after the other",
            "seconds": f"{seconds:g}, and {mutated:g} of mutated pictures",
        },
    )
    header = ["hostile pictures", "good answered", "median, ms", "p99, ms", "longest, ms", "503", "lost"]
    print_table([*header, "memory, MiB", "hostile ones answered"], rows)


def measure(
    folder: Path, kind: str, sent: list[tuple[str, bytes]], seconds: float, mutated: float
) -> list[str]:
    """A row of the table, of a service of its own."""
    port = free_port()
    environment = {
        "DERMFED_REGISTRY_URL": f"sqlite:///{folder / 'registry.db'}",
        "DERMFED_STORE": str(folder / "store"),
        "BENTOML_HOME": str(folder / "bentoml"),
        "DERMFED_SERVE_RECORDS": "none",
        "DERMFED_SERVE_REQUESTS_PER_MINUTE": "0",
        "PYTHONPATH": str(ROOT),
    }
    with Registry.open(environment["DERMFED_REGISTRY_URL"], environment["DERMFED_STORE"]) as registry:
        registry.add([small_bundle(0, picture=PictureRule(size=SIZE))])
        registry.promote(NAME, [1], to="production", override_gates=True, reason="a benchmark")
        keys = [{"Authorization": f"Bearer {registry.create_key(name)[1]}"} for name in ("good", "hostile")]
    command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
    url, good = f"http://127.0.0.1:{port}", small_picture("JPEG", 300)
    with running(command, f"{url}/readyz", folder / "log", environment, ROOT) as service:
        ask = f"{url}/v1/diagnoses"
        rate = asyncio.run(capacity(ask, keys[0], good, min(5.0, seconds))) / 2
        watch = Watch(service.pid)
        heard = asyncio.run(
            phase(ask, keys, good, rate, mutated if kind.startswith("mutated") else seconds, sent)
        )
        heard.memory = watch.end()
    return heard.row(kind)


if __name__ == "__main__":
    start(main, "--seconds 1 --mutated 1 --scans 40 --side 300")

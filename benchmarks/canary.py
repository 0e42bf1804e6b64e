"""A canary beside production: the share that it gets, and what it costs those who ask.

`dermfed-serve` with two workers over a registry with two releases of a small model, the second of which is
the canary of the first. The model costs next to nothing, so that what choosing costs is seen.

- **Share**: callers send pictures of which no two are alike. Counted are the answers of the canary, those
  that failed, those whose version is not the one that the canary's key says, and, of pictures that are sent
  again, those answered by another version than before. The realised share has to lie within 4 standard
  deviations of a binomial one (once in some 16,000 runs it would not), and the three counts have to be zero.
- **Time**: two such services, one with a canary and one without, are asked in turn, each of a pair first in
  one half of the pairs. Told is the ratio of the medians, with its 95 % interval from 2,000 bootstrap samples
  of pairs. It has to lie below 1.1 for small and for large pictures; which version a picture gets plays no
  part, as both cost the same.

Ends with exit code 1 if something has to be and is not.
"""

import io
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import numpy as np
import typer
from in_turn import in_turn
from PIL import Image
from quick import is_quick, start
from services import TwoWorkers, running
from small_model import NAME, small_bundle
from tables import print_conditions, print_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside this file serving.py is another benchmark

from registry.records import Canary
from registry.registry import Registry
from registry.releases.rollout import Share
from serving.releases.rollout import place_of

CALLERS = 4
SMALL, LARGE = 48, 2000
"""Sides of the pictures; pixels."""

TABLES = Path(__file__).parents[1] / "docs" / "results" / "tables"
PROMOTION = {"to": "production", "override_gates": True, "reason": "a benchmark"}


def draw(seed: int, side: int) -> bytes:
    """A picture of noise; no two seeds give the same."""
    small = np.random.default_rng(seed).integers(0, 256, (SMALL, SMALL, 3), np.uint8)
    file = io.BytesIO()
    if side == SMALL:
        Image.fromarray(small).save(file, "PNG", compress_level=0)
    else:
        Image.fromarray(small).resize((side, side)).save(file, "JPEG", quality=98)
    return file.getvalue()


def ask(client: httpx.Client, content: bytes) -> int:
    """The version that answers a picture."""
    kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
    answer = client.post("/v1/diagnoses", content=content, headers={"Content-Type": kind})
    answer.raise_for_status()
    return int(answer.json()["model"]["version"])


@dataclass
class Told:
    """What callers were told: the version of each picture, by its seed; and what failed."""

    versions: dict[int, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def ask_all(address: str, seeds: range) -> Told:
    """Sends the picture of each seed, by several callers."""
    told = Told()

    def call(mine: range) -> None:
        with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
            for seed in mine:
                try:
                    told.versions[seed] = ask(client, draw(seed, SMALL))
                except httpx.HTTPError as error:
                    told.failed.append(repr(error))

    threads = [threading.Thread(target=call, args=(seeds[one::CALLERS],)) for one in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def shares(
    address: str, registry: Registry, shares: list[float], count: int
) -> tuple[list[list[object]], bool]:
    """For each share so many requests; rows of the table, and whether all was as it has to be."""
    rows, good = [], True
    for place, share in enumerate(shares):
        canary = promote(registry, share)
        wait_for(address, share)
        seeds = range(place * count, (place + 1) * count)
        told = ask_all(address, seeds)
        again = ask_all(address, seeds[: count // 10])
        got = sum(version == 2 for version in told.versions.values())
        other = sum(
            version != (2 if place_of(canary.key, draw(seed, SMALL)) < share else 1)
            for seed, version in told.versions.items()
        )
        changed = sum(told.versions.get(seed) != version for seed, version in again.versions.items())
        n = len(told.versions)
        offline = (got - n * share) / (n * share * (1 - share)) ** 0.5
        failed = len(told.failed) + len(again.failed)
        good = good and abs(offline) <= 4 and not (other or changed or failed)
        rows.append(
            [share, n, got, f"{got / n:.4f}", f"{offline:+.1f}", failed, other, len(again.versions), changed]
        )
    return rows, good


def promote(registry: Registry, share: float) -> Canary:
    """The canary, with this share."""
    registry.promote(NAME, [2], **PROMOTION, share=Share(share))
    return registry.canaries(NAME)["production"]


def wait_for(address: str, share: float) -> None:
    """Until both workers have polled since, and have the canary loaded."""
    found = f'alias="production/canary",model="{NAME}"'
    for _ in range(240):
        lines = httpx.get(f"{address}/metrics", trust_env=False, timeout=60).text.splitlines()
        serving = [one for one in lines if one.startswith("dermfed_release_workers") and found in one]
        at = [float(one.rsplit(" ")[-1]) for one in lines if one.startswith("dermfed_canary_share{")]
        if [one.rsplit(" ")[-1] for one in serving] == ["2.0"] and at == [share]:
            time.sleep(2)  # the gauge is of the worker with the largest share: the other has polled by then
            return
        time.sleep(0.25)
    raise SystemExit("the canary is not served")


def times(plain: str, with_canary: str, side: int, pairs: int) -> tuple[list[object], bool]:
    """Pairs of requests in turn; the row of the table, and whether the ratio is as it has to be."""
    found = in_turn(plain, with_canary, pairs, lambda seed: draw(seed, side), ask)
    size = f"{side} x {side}, {len(draw(0, side)) / 1000:,.0f} kB"
    return [size, pairs, f"{found.one:.1f}", f"{found.other:.1f}", str(found)], found.ratio < 1.1


@contextmanager
def served(folder: Path, share: float | None) -> Iterator[tuple[str, Registry]]:
    """A service whose production is version 1, and whose canary is version 2 where a share is given."""
    folder.mkdir()
    ours = TwoWorkers.on_a_free_port(folder)
    with ours.registry() as registry:
        registry.add([small_bundle(0), small_bundle(1)])
        registry.promote(NAME, [1], **PROMOTION)
        if share is not None:
            promote(registry, share)
        with running(ours.command, f"{ours.address}/readyz", folder / "log", ours.environment):
            yield ours.address, registry


def main(
    count: Annotated[int, typer.Option(help="Requests for each share.")] = 20_000,
    pairs: Annotated[
        int, typer.Option(help="Pairs of small pictures; of large ones a fifth of them.")
    ] = 1000,
) -> None:
    """Count who is answered by the canary, and time it."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        print_conditions("A canary", {"callers": CALLERS, "workers": 2})
        folder = Path(name)
        plain, _ = stack.enter_context(served(folder / "plain", None))
        address, registry = stack.enter_context(served(folder / "canary", 0.05))
        wait_for(address, 0.05)
        timed = [times(plain, address, side, n) for side, n in ((SMALL, pairs), (LARGE, max(pairs // 5, 2)))]
        header = ["picture", "pairs", "without, median ms", "with", "ratio"]
        print_table(header, [row for row, _ in timed])
        found, good = shares(address, registry, [0.05], count)
        counted = ["share", "requests", "by the canary", "realised", "standard deviations away", "failed"]
        counted += ["by another version than the key says", "sent again", "then by another version"]
        print_table(counted, found)
    if not is_quick():
        write_table(TABLES / "canary-times.csv", header, [row for row, _ in timed])
        write_table(TABLES / "canary-share.csv", counted, found)
    if not (good and (is_quick() or all(fast for _, fast in timed))):
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main, "--count 300 --pairs 10")

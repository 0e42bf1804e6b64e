"""What it costs to decode a picture in another process: the same calls here and there, side by side.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --calls 5000

One caller, then eight at once, each a thread as the service's own are. In every round both ways are asked
with the same picture, in an order that changes; the hop is the median of what the other process took longer,
call by call.
"""

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image
from quick import start
from tables import print_conditions, print_table

sys.path.insert(0, str(Path(__file__).parents[1]))  # before this folder, which has a `serving` too

from registry.bundle.pictures.rule import PictureRule
from serving.decoding.decoders import Decoders
from serving.decoding.messages import decode_here
from serving.machine import cores
from serving.metrics import Metrics
from serving.settings import ServeSettings

RULE = PictureRule(size=224)
Decode = Callable[[bytes, PictureRule], Any]


def photograph(size: int, quality: int = 90) -> bytes:
    """A JPEG of about so many bytes: coarse noise made smooth, as skin is."""
    draw, side, file = np.random.default_rng(0), 64, io.BytesIO()
    while file.tell() < size:
        side += 16
        small = Image.fromarray(draw.integers(60, 220, (side // 4, side // 4, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=quality)
    return file.getvalue()


def pairs(ways: tuple[Decode, Decode], content: bytes, calls: int) -> np.ndarray:
    """Milliseconds of each call, `(calls, 2)`."""
    taken = np.empty((calls, 2))
    for call in range(calls):
        for way in (0, 1) if call % 2 else (1, 0):
            began = perf_counter()
            ways[way](content, RULE)
            taken[call, way] = perf_counter() - began
    return taken * 1000


def together(way: Decode, content: bytes, calls: int, callers: int) -> tuple[np.ndarray, float]:
    """Milliseconds of each call of so many callers at once, and calls a second of all."""
    taken: list[float] = []

    def ask() -> None:
        for _ in range(calls // callers):
            began = perf_counter()
            way(content, RULE)
            taken.append(perf_counter() - began)

    threads = [threading.Thread(target=ask) for _ in range(callers)]
    began = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(taken) * 1000, len(taken) / (perf_counter() - began)


def main(
    calls: Annotated[int, typer.Option(help="Calls of each way, for each picture.")] = 1000,
    sizes: Annotated[str, typer.Option(help="Of the pictures, in bytes.")] = "20000,131000,1000000",
) -> None:
    """Decode pictures in this process and in another."""
    decoders = Decoders(ServeSettings(records=None), Metrics())
    decoders.start()
    decoders.wait()
    rows = []
    for content in (photograph(int(size)) for size in sizes.split(",")):
        assert (decode_here(content, RULE).pixels == decoders.decode(content, RULE).pixels).all()
        alone = pairs((decode_here, decoders.decode), content, calls)
        hop = np.median(alone[:, 1] - alone[:, 0])
        for name, taken in (("here", alone[:, 0]), ("in a decoder", alone[:, 1])):
            told = f"{hop:.2f}" if name != "here" else "-"
            rows.append(
                [f"{len(content):,}", "1", name, *percentiles(taken), told, f"{1000 / taken.mean():.0f}"]
            )
        for name, way in (("here", decode_here), ("in a decoder", decoders.decode)):
            taken, rate = together(way, content, calls, 8)
            rows.append([f"{len(content):,}", "8", name, *percentiles(taken), "-", f"{rate:.0f}"])
    decoders.close()
    print_conditions(
        "Decoding in another process", {"calls": f"{calls:,}", "cores": str(cores()), "rule": "224"}
    )
    print_table(["bytes", "callers", "where", "p50, ms", "p99, ms", "hop, ms", "a second"], rows)


def percentiles(taken: np.ndarray) -> list[str]:
    """The median and the 99th percentile."""
    return [f"{np.percentile(taken, q):.2f}" for q in (50, 99)]


if __name__ == "__main__":
    start(main, "--calls 8 --sizes 20000")

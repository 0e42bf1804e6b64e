"""What a picture costs by both picture rules, with a profile and without; and how dear whole JPEGs are.

Of each call the quickest of as many as fit into a second counts, in time of the processor. The pictures are
noise on a ramp, as JPEG of quality 90, of the size of a published picture and of a phone's.

    python benchmarks/colour_profile_costs.py
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Annotated, Final

import numpy as np
import typer
from PIL import Image, JpegImagePlugin
from quick import start
from tables import print_conditions, print_table, write_table

sys.path.insert(0, str(Path(__file__).parents[1]))

from registry.bundle.pictures import colours
from registry.bundle.pictures.jpeg import load_jpeg
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests import colour_profiles as made

SIZES: Final = ((600, 450), (4000, 3000))
PROFILES: Final = {"none": None, "sRGB": made.srgb(), "Display P3": made.display_p3()}


def drawn(width: int, height: int) -> Image.Image:
    """A ramp of colours under noise, which JPEG has to keep."""
    rows, columns = np.mgrid[:height, :width]
    ramp = np.stack([120 + 100 * columns / width, 90 + 80 * rows / height, np.full(rows.shape, 90)], axis=2)
    noise = np.random.default_rng(0).normal(0, 9, ramp.shape)
    return Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8))


def saved(image: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def quickest(call: Callable[[], object], seconds: float) -> str:
    """The least milliseconds of the processor that a call takes, whoever else uses it."""
    least, end, calls = float("inf"), perf_counter() + seconds, 0
    while calls < 3 or perf_counter() < end:
        began = thread_time()
        call()
        least, calls = min(least, thread_time() - began), calls + 1
    return f"{1000 * least:.2f}"


def decoded(content: bytes, size: int, version: int, *, seen: bool = True) -> None:
    """A picture as a model sees it; or as if its profile had never been seen."""
    if not seen:
        colours._judged.cache_clear()
    decode_picture(content, PictureRule(size=size, version=version))


def opened(content: bytes, size: int) -> JpegImagePlugin.JpegImageFile:
    """A JPEG that its decoder will scale down."""
    image = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
    image.draft("RGB", (size, size))
    return image


def main(
    size: Annotated[int, typer.Option(help="Pixels on both sides of what a model sees.")] = 192,
    seconds: Annotated[float, typer.Option(help="For which each call is repeated.")] = 1.0,
    tables: Annotated[Path | None, typer.Option(help="Where the tables go as CSV, too.")] = None,
) -> None:
    """Measure, and print both tables."""
    print_conditions("Colour profiles: what they cost", {"pixels": size})
    pictures = [drawn(*each) for each in SIZES]
    header = ["JPEG", "profile", "rule 1, ms", "rule 2, ms", "rule 2, a profile never seen, ms"]
    lines = []
    for image in pictures:
        for name, profile in PROFILES.items():
            content = saved(image, icc_profile=profile)
            spent = [
                quickest(lambda: decoded(content, size, 1), seconds),  # noqa: B023 - called at once
                quickest(lambda: decoded(content, size, 2), seconds),  # noqa: B023
                quickest(lambda: decoded(content, size, 2, seen=False), seconds),  # noqa: B023
            ]
            lines.append([f"{image.width} x {image.height}, {len(content):,} bytes", name, *spent])
    print_table(header, lines)
    if tables:
        write_table(tables / "colour-profiles-cost.csv", header, lines)
    header, lines = ["JPEG", "by Pillow, ms", "and no byte missing, ms"], []
    for image in pictures:
        for kind in ("baseline", "progressive"):
            content = saved(image, progressive=kind == "progressive")
            spent = [
                quickest(lambda: opened(content, size).load(), seconds),  # noqa: B023
                quickest(lambda: load_jpeg(opened(content, size)), seconds),  # noqa: B023
            ]
            lines.append([f"{image.width} x {image.height}, {kind}, {len(content):,} bytes", *spent])
    print_table(header, lines)
    if tables:
        write_table(tables / "jpeg-whole-cost.csv", header, lines)


if __name__ == "__main__":
    start(main, "--size 64 --seconds 0.05")

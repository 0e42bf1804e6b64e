"""Which good pictures are called bad, and which bad ones are found? MILK10k and HAM10000.

Good are the pictures of both data sets: people had thought them good enough to keep. Bad are some of them
after a known amount of blur (a Gaussian, or a move along one direction), of too little or too much light (a
factor on linear light, in stops, then clipped), or cut down to a corner of mere skin; and sheets of one
colour. All are looked at as the service does, at two sizes of a model's picture.

Printed: the share of good pictures past each threshold, by kind of picture and skin tone; the share of bad
ones that are found; what a rule on the mean brightness would do to the same pictures, with the threshold
that finds as many dark ones; half a lesion, which no rule tells; and what it costs beside decoding.

    DERMFED_DATA=... python benchmarks/picture_quality.py
"""

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image, ImageFilter

sys.path.insert(0, str(Path(__file__).parents[1]))  # beside this file serving.py is another benchmark

from quick import start
from tables import print_conditions, print_table

from clients.data.adapters.table import make_adapter
from clients.data.manifests.manifest import Row
from clients.data.pictures.files import PictureReader, locate
from clients.data.progress import progress
from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.inference.quality import (
    BLUR,
    BRIGHTEST,
    BURNT,
    CONTRAST,
    QualityAssessment,
    assess_quality,
    measure,
)

SIZES: Final = (128, 64)
TROUBLES: Final = ("too-dark", "too-bright", "nothing-to-see", "blurred")
Change = Callable[[Image.Image], Image.Image]


@dataclass(frozen=True)
class Looked:
    """One picture as the rules see it: what `assess_quality` says, and each measure by itself."""

    judged: QualityAssessment
    blur: float
    brightest: float
    burnt: float
    contrast: float
    mean: float

    def past(self, trouble: str, size: int, *, bad: bool) -> bool:
        """Whether the picture is past a threshold of a rule, whatever the other rules say."""
        level = "bad" if bad else "issue"
        return {
            "too-dark": self.brightest < getattr(BRIGHTEST, level),
            "too-bright": self.burnt > getattr(BURNT, level),
            "nothing-to-see": self.contrast < getattr(CONTRAST, level),
            "blurred": self.blur > getattr(BLUR[size], level),
        }[trouble]


def look(image: Image.Image, size: int) -> Looked:
    """The picture through the picture function and the rules, as if it had been sent."""
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=0)
    rule = PictureRule(size=size)
    pixels = decode_picture(file.getvalue(), rule)
    found = measure(pixels)
    assert found is not None
    assert found.side == size
    judged = assess_quality(size, size, rule, pixels)  # a corner of a picture is no small picture here
    mean = float(np.asarray(Image.fromarray(pixels).convert("L")).mean())
    return Looked(judged, found.blur, found.brightest, found.burnt, found.contrast, mean)


def light(stops: float) -> Change:
    """2^stops times the light, clipped at white, in 8 bits."""
    level = np.arange(256) / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    lit = np.clip(linear * 2.0**stops, 0, 1)
    shown = np.where(lit <= 0.0031308, lit * 12.92, 1.055 * lit ** (1 / 2.4) - 0.055)
    table = (255 * shown).round().astype(np.uint8).tolist()
    return lambda image: image.point(table * 3)


def moved(pixels: int) -> Change:
    """A straight move across by so many pixels while the shutter was open."""

    def change(image: Image.Image) -> Image.Image:
        rows = np.asarray(image).astype(np.float64)
        width = rows.shape[1] - pixels + 1
        smeared = sum(rows[:, shift : shift + width] for shift in range(pixels)) / pixels
        return Image.fromarray(smeared.round().astype(np.uint8))

    return change


def part(left: float, upper: float, right: float, lower: float) -> Change:
    """A part of the picture, in shares of its sides."""
    return lambda image: image.crop(
        (
            round(left * image.width),
            round(upper * image.height),
            round(right * image.width),
            round(lower * image.height),
        )
    )


BLURS: Final[Mapping[str, Change]] = {
    **{
        f"Gaussian, σ {sigma / 150:.1%} of the height": (
            lambda image, sigma=sigma: image.filter(ImageFilter.GaussianBlur(sigma))
        )
        for sigma in (1, 1.5, 2, 3, 4)
    },
    **{f"moved by {length / 200:.1%} of the width": moved(length) for length in (5, 9)},
}
LIGHTS: Final[Mapping[str, Change]] = {f"{stops:+d} stops": light(stops) for stops in (-2, -3, -4, 1, 2, 3)}
CUTS: Final[Mapping[str, Change]] = {
    "a corner, three tenths of each side": part(0, 0, 0.3, 0.3),
    "the left half of the lesion": part(0, 0, 0.5, 1),
}
SHEETS: Final = {
    "white paper": (243, 241, 238),
    "a beige wall": (214, 196, 170),
    "a finger on the lens": (96, 30, 18),
}


def groups(data: Path) -> dict[str, tuple[list[Row], Path]]:
    """The good pictures by kind and tone, or by clinic."""
    found: dict[str, tuple[list[Row], Path]] = {}
    for name in ("milk10k", "ham10000"):
        manifest = make_adapter(name, {}).manifest(data / name)
        for row in manifest.rows:
            kind = row.extra.get("image_type", "").replace("clinical: ", "")
            group = (
                f"{kind}, tone {row.skin_tone}" if name == "milk10k" else f"HAM10000, {row.extra['clinic']}"
            )
            found.setdefault(group, ([], manifest.folder))[0].append(row)
    return dict(sorted(found.items()))


def open_row(reader: PictureReader, row: Row, folder: Path) -> Image.Image:
    return Image.open(io.BytesIO(reader.read(locate(row.image, folder)))).convert("RGB")


def good_pictures(kinds: Mapping[str, tuple[list[Row], Path]], size: int) -> dict[str, list[Looked]]:
    total = sum(len(rows) for rows, _ in kinds.values())
    with PictureReader() as reader, progress(f"good pictures at {size}", total) as advance:
        looked: dict[str, list[Looked]] = {}
        for group, (rows, folder) in kinds.items():
            looked[group] = []
            for row in rows:
                looked[group].append(look(open_row(reader, row, folder), size))
                advance(1)
    return looked


def good_table(looked: Mapping[str, Sequence[Looked]], size: int) -> None:
    lines = []
    everything = {**looked, "all": [one for group in looked.values() for one in group]}
    for group, pictures in everything.items():
        cells = [
            f"{np.mean([one.past(trouble, size, bad=bad) for one in pictures]):.4f}"
            for trouble in TROUBLES
            for bad in (False, True)
        ]
        lines.append(
            [group, len(pictures), *cells, f"{np.mean([not one.judged.acceptable for one in pictures]):.4f}"]
        )
    header = [f"{trouble}{bad}" for trouble in TROUBLES for bad in ("", ", bad")]
    print_table(["good pictures", "n", *header, "retake"], lines)


def sampled(
    kinds: Mapping[str, tuple[list[Row], Path]], count: int, seed: int
) -> dict[str, list[tuple[Row, Path]]]:
    """As many pictures of each of three kinds, the tones in turn as far as they go."""
    drawn = np.random.default_rng(seed)
    chosen: dict[str, list[tuple[Row, Path]]] = {}
    for kind in ("close-up", "dermoscopic", "HAM10000"):
        mixed = [
            sorted(zip(drawn.random(len(rows)), rows, strict=True), key=lambda pair: pair[0])
            for group, (rows, _) in kinds.items()
            if group.startswith(kind)
        ]
        folder = next(folder for group, (_, folder) in kinds.items() if group.startswith(kind))
        turns = [group[turn][1] for turn in range(count) for group in mixed if turn < len(group)]
        chosen[kind] = [(row, folder) for row in turns[:count]]
    return chosen


def found_table(
    title: str,
    trouble: str,
    changes: Mapping[str, Change],
    chosen: Mapping[str, list[tuple[Row, Path]]],
    size: int,
) -> None:
    lines = []
    with PictureReader() as reader:
        for name, change in changes.items():
            shares = []
            for rows in chosen.values():
                looked = [look(change(open_row(reader, *row)), size) for row in rows]
                shares += [
                    np.mean([one.past(trouble, size, bad=bad) for one in looked]) for bad in (False, True)
                ]
            lines.append([name, *(f"{share:.2f}" for share in shares)])
    print_table([title, *(f"{kind}{bad}" for kind in chosen for bad in ("", ", bad"))], lines)


def by_the_mean(
    looked: Mapping[str, Sequence[Looked]], chosen: Mapping[str, list[tuple[Row, Path]]], size: int
) -> None:
    """A threshold on the mean that finds as many pictures three stops too dark, and whom it calls dark."""
    with PictureReader() as reader:
        dark = [look(light(-3)(open_row(reader, *row)), size) for rows in chosen.values() for row in rows]
    share = np.mean([one.brightest < BRIGHTEST.issue for one in dark])
    threshold = np.quantile([one.mean for one in dark], share)
    lines = [
        [
            group,
            len(pictures),
            f"{np.mean([one.brightest < BRIGHTEST.issue for one in pictures]):.4f}",
            f"{np.mean([one.mean < threshold for one in pictures]):.4f}",
        ]
        for group, pictures in looked.items()
    ]
    print(
        f"Both find {share:.2f} of the pictures that are three stops too dark, the mean where it is below "
        f"{threshold:.0f}\n"
    )
    print_table(["good pictures called too dark", "n", "by the brightest hundredth", "by the mean"], lines)


def cost(chosen: Mapping[str, list[tuple[Row, Path]]], repeats: int) -> None:
    """The time of `assess_quality` beside that of decoding, each the median over repeats in turn."""
    lines = []
    with PictureReader() as reader:
        small = open_row(reader, *chosen["close-up"][0])
    for size in (64, 128, 224):
        for width in (800, 3200):
            file = io.BytesIO()
            small.resize((width, width * 3 // 4), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
            rule = PictureRule(size=size)
            pixels = decode_picture(file.getvalue(), rule)
            times = []
            for _ in range(repeats):
                began = perf_counter()
                decode_picture(file.getvalue(), rule)
                decoded = perf_counter()
                assess_quality(width, width * 3 // 4, rule, pixels)
                times.append((decoded - began, perf_counter() - decoded))
            decoding, judging = np.median(times, axis=0)
            lines.append([size, f"{width} x {width * 3 // 4}", f"{judging / decoding:.3f}"])
    print_table(["the model's picture", "sent", "judging, in parts of decoding"], lines)


def main(
    pictures: Annotated[int, typer.Option(help="Pictures of each kind that are made bad.")] = 400,
    repeats: Annotated[int, typer.Option(help="Repeats of what is timed.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the drawing.")] = 0,
) -> None:
    """Look at every picture and print the tables."""
    kinds = groups(Path(os.environ["DERMFED_DATA"]))
    chosen = sampled(kinds, pictures, seed)
    print_conditions("Picture quality", {"pictures made bad, of each kind": pictures, "seed": seed})
    for size in SIZES:
        print(f"#### A model that sees {size} x {size}\n")
        looked = good_pictures(kinds, size)
        quantiles(looked)
        good_table(looked, size)
        found_table("blurred, found", "blurred", BLURS, chosen, size)
        if size == SIZES[0]:
            darker = {name: change for name, change in LIGHTS.items() if name.startswith("-")}
            brighter = {name: change for name, change in LIGHTS.items() if name.startswith("+")}
            found_table("too dark, found", "too-dark", darker, chosen, size)
            found_table("too bright, found", "too-bright", brighter, chosen, size)
            found_table("nothing to see, found", "nothing-to-see", CUTS, chosen, size)
            by_the_mean(looked, chosen, size)
            for name, colour in SHEETS.items():
                seen = look(Image.new("RGB", (200, 150), colour), size)
                print(f"- {name}: {', '.join(issue.code for issue in seen.judged.issues) or 'nothing'}")
            print()
    cost(chosen, repeats)


def quantiles(looked: Mapping[str, Sequence[Looked]]) -> None:
    """Where thresholds may lie: the extreme percentiles of each measure over good pictures."""
    lines = []
    for group, pictures in looked.items():
        blur: NDArray[np.float64] = np.quantile([one.blur for one in pictures], (0.99, 0.998, 1))
        rest = [
            np.quantile([getattr(one, name) for one in pictures], shares)
            for name, shares in (
                ("brightest", (0, 0.002, 0.01)),
                ("burnt", (0.99, 0.998, 1)),
                ("contrast", (0, 0.002, 0.01)),
            )
        ]
        lines.append([group, *(" / ".join(f"{value:.3g}" for value in values) for values in (blur, *rest))])
    print_table(
        [
            "good pictures",
            "blur, 99 / 99.8 / 100 %",
            "brightest, 0 / 0.2 / 1 %",
            "burnt, 99 / 99.8 / 100 %",
            "contrast, 0 / 0.2 / 1 %",
        ],
        lines,
    )


if __name__ == "__main__":
    start(main, "--pictures 4 --repeats 1", pictures=True)

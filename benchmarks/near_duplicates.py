"""Which near-duplicates are found, and how many pairs are called so that are none? MILK10k and HAM10000.

Copies are made of drawn pictures: cut by 5 % of width and height at a drawn place or not at all, resized by
0.5, 0.75 or 1, saved as JPEG of quality 60, 75, 85 or 95. Recall is the share of copies that are called near-
duplicates of their picture. A false alarm is a pair of pictures of different lesions that is called so and is
not one of `SAME`: what MILK10k is known to hold twice, and what was seen to be the same by eye.

A rule chooses a threshold: the lowest likeness, in steps of 0.05, at which nothing is called wrongly in one
half of the lesions of either data set, and one step more. It is judged on the other half: copies of those
lesions' pictures, and all pairs with a lesion of that half. The code may be stricter than the rule asks; its
own threshold is the one of the table of copies. Intervals are exact, 95 %.

Printed besides: recall where squares of other sizes are compared, such as a job's cache holds; pairs that are
called, by name; and what it costs.

    DERMFED_DATA=... python benchmarks/near_duplicates.py
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import process_time
from typing import Annotated, Final

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image
from quick import start
from tables import print_conditions, print_table, write_table

from clients.data.adapters.table import make_adapter
from clients.data.manifests.groups import number_lesions
from clients.data.manifests.manifest import Row
from clients.data.pictures.files import PictureReader, locate
from clients.data.pictures.fingerprints import DECODED, Fingerprints, fingerprint
from clients.data.pictures.near_duplicates import ALIKE, RADIUS, NearDuplicate, find_near_duplicates
from clients.data.progress import progress
from registry.bundle.metrics.intervals import clopper_pearson
from registry.bundle.pictures.rule import PictureRule, decode_picture

QUALITIES: Final = (60, 75, 85, 95)
SCALES: Final = (0.5, 0.75, 1.0)
CROPS: Final = (0.0, 0.05)
SIZES: Final = (32, 64, 128, 224)
LEAST: Final = 0.5  # the lowest likeness that is looked at
STEPS: Final = tuple(round(0.5 + 0.05 * step, 2) for step in range(9))
# Pairs of lesions with the same picture: MILK10k's known ones (the first five), and what was seen by eye.
SAME: Final[Mapping[str, str]] = {
    "IL_1562251 IL_2734125": "known",
    "IL_2812139 IL_9590648": "known",
    "IL_1808002 IL_5835237": "known",
    "IL_2779245 IL_6365837": "known",
    "IL_6755192 IL_9247349": "known",
    "IL_6684225 IL_7996799": "by eye: two parts of one photograph",
    "IL_1711365 IL_2717072": "by eye: two parts of one photograph",
    "HAM_0000792 HAM_0002366": "by eye: one lesion, taken twice",
    "HAM_0000955 HAM_0007604": "by eye: one lesion, taken twice",
    "HAM_0000140 HAM_0004919": "by eye: one lesion, taken twice",
    "HAM_0001109 HAM_0007525": "by eye: one lesion, taken twice",
    "HAM_0003813 HAM_0003816": "by eye: one lesion, taken twice",
    "HAM_0004213 HAM_0004214": "by eye: one lesion, taken twice",
    "HAM_0004735 HAM_0007465": "by eye: one lesion, taken twice",
    "HAM_0004604 HAM_0006469": "by eye: one lesion, taken twice",
}
Copy = tuple[float, float, int]  # crop, scale, quality


@dataclass(frozen=True)
class Pictures:
    """A data set: its rows, each file's bytes, which half each lesion is in, and all fingerprints."""

    name: str
    rows: Sequence[Row]
    content: Sequence[bytes]
    half: NDArray[np.int64]
    prints: Fingerprints
    seconds: float

    def lesions(self, pair: NearDuplicate) -> str:
        """The names of both lesions."""
        return " ".join(sorted(self.rows[place].lesion_id for place in (pair.first, pair.second)))

    def other(self, pair: NearDuplicate) -> int:
        """0 where both pictures are of the first half's lesions, else 1."""
        return int(self.half[pair.first] or self.half[pair.second])

    def pairs(self) -> tuple[int, int]:
        """How many pairs of different lesions there are within the first half, and besides."""

        def within(rows: NDArray[np.bool_]) -> int:
            lesions = number_lesions([row for row, keep in zip(self.rows, rows, strict=True) if keep])
            n, each = int(rows.sum()), np.bincount(lesions)
            return n * (n - 1) // 2 - int((each * (each - 1) // 2).sum())

        first = within(self.half == 0)
        return first, within(np.ones_like(self.half, dtype=bool)) - first


def look(name: str) -> Pictures:
    manifest = make_adapter(name, {}).manifest(Path(os.environ["DERMFED_DATA"]) / name)
    with PictureReader() as reader:
        content = [reader.read(locate(row.image, manifest.folder)) for row in manifest.rows]
    decoded = [decode_picture(each, PictureRule(size=DECODED)) for each in content]
    began = process_time()
    prints = fingerprints_of(decoded)
    seconds = process_time() - began
    return Pictures(name, manifest.rows, content, number_lesions(manifest.rows) % 2, prints, seconds)


def fingerprints_of(decoded: Sequence[NDArray[np.uint8]]) -> Fingerprints:
    made = []
    with progress("fingerprints", len(decoded)) as advance:
        for pixels in decoded:
            made.append(fingerprint(pixels))
            advance(1)
    return Fingerprints.joined(made)


def saved_anew(content: bytes, copy: Copy, rng: np.random.Generator) -> bytes:
    crop, scale, quality = copy
    image = Image.open(io.BytesIO(content)).convert("RGB")
    wide, high = (round(side * (1 - crop)) for side in image.size)
    left, top = (
        int(rng.integers(0, side - kept + 1)) for side, kept in zip(image.size, (wide, high), strict=True)
    )
    size = (max(1, round(wide * scale)), max(1, round(high * scale)))
    image = image.resize(size, Image.Resampling.LANCZOS, box=(left, top, left + wide, top + high))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def likeness_of_copies(
    pictures: Pictures, places: NDArray[np.int64], copy: Copy, size: int, seed: int
) -> NDArray[np.float64]:
    """How alike each picture and its copy are, `(places,)`; 0 where they are no candidates."""
    rng = np.random.default_rng([seed, *(round(100 * part) for part in copy)])
    rule = PictureRule(size=size)
    copies = [decode_picture(saved_anew(pictures.content[at], copy, rng), rule) for at in places]
    if size == DECODED:
        originals = Fingerprints(pictures.prints.hashes[places], pictures.prints.copies[places])
    else:
        originals = fingerprints_of([decode_picture(pictures.content[at], rule) for at in places])
    n = len(places)
    found = np.zeros(n)
    for pair in find_near_duplicates(Fingerprints.joined([originals, fingerprints_of(copies)]), alike=LEAST):
        if pair.second == pair.first + n:
            found[pair.first] = pair.likeness
    return found


def share(x: int, n: int, places: int = 3) -> str:
    low, high = clopper_pearson(x, n)
    return f"{x / n:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def per_million(x: int, n: int) -> str:
    low, high = clopper_pearson(x, n)
    return f"{1e6 * x / n:.2f} [{1e6 * low:.2f}, {1e6 * high:.2f}]"


def main(
    pictures: Annotated[int, typer.Option(help="Of each half of a data set, to be copied.")] = 250,
    seed: Annotated[int, typer.Option(help="Another seed, other copies.")] = 0,
    tables: Annotated[Path | None, typer.Option(help="Where the tables go as CSV, too.")] = None,
) -> None:
    """Make copies, look for them, look for what is there already, and print the tables."""
    print_conditions("Near-duplicates", {"pictures a half": pictures, "seed": seed, "radius": RADIUS})
    rng = np.random.default_rng(seed)
    sets = [look(name) for name in ("milk10k", "ham10000")]
    called, seconds = [], []
    for each in sets:
        began = process_time()
        called.append(find_near_duplicates(each.prints, alike=LEAST))
        seconds.append(process_time() - began)
    false = [
        [
            [pair.likeness for pair in pairs if is_false(each, pair) and each.other(pair) == side]
            for side in (0, 1)
        ]
        for each, pairs in zip(sets, called, strict=True)
    ]
    clean = [step for step in STEPS if not any(told >= step for each in false for told in each[0])]
    chosen = round(clean[0] + 0.05, 2) if clean else 1.0
    print(f"by the rule: {chosen}; in the code: {ALIKE}\n")

    copies = list(product(CROPS, SCALES, QUALITIES))
    places = [
        [rng.permutation(np.flatnonzero(each.half == side))[:pictures] for side in (0, 1)] for each in sets
    ]
    found = [
        [{copy: likeness_of_copies(each, at, copy, DECODED, seed) for copy in copies} for at in sides]
        for each, sides in zip(sets, places, strict=True)
    ]
    recall_table(sets, copies, found, tables)
    threshold_table(sets, false, found, tables)
    called_table(sets, called)
    size_table(sets, [sides[1] for sides in places], seed)
    print_table(
        ["data set", "pictures", "ms a fingerprint", "s to compare all"],
        [
            [each.name, len(each.rows), f"{1000 * each.seconds / len(each.rows):.1f}", f"{spent:.1f}"]
            for each, spent in zip(sets, seconds, strict=True)
        ],
    )


def is_false(each: Pictures, pair: NearDuplicate) -> bool:
    lesions = {each.rows[place].lesion_id for place in (pair.first, pair.second)}
    return len(lesions) > 1 and each.lesions(pair) not in SAME


def recall_table(
    sets: Sequence[Pictures],
    copies: Sequence[Copy],
    found: Sequence[Sequence[Mapping[Copy, NDArray[np.float64]]]],
    tables: Path | None,
) -> None:
    header = ["crop", "resize", "quality", *(f"recall, {each.name}" for each in sets)]
    lines = []
    for copy in copies:
        crop, scale, quality = copy
        told = [sides[1][copy] for sides in found]
        recalls = [share(int((each >= ALIKE).sum()), len(each)) for each in told]
        lines.append([f"{crop:.0%}", f"{scale:g}", quality, *recalls])
    print_table(header, lines)
    if tables:
        write_table(tables / "near-duplicates.csv", header, lines)


def threshold_table(
    sets: Sequence[Pictures],
    false: Sequence[Sequence[Sequence[float]]],
    found: Sequence[Sequence[Mapping[Copy, NDArray[np.float64]]]],
    tables: Path | None,
) -> None:
    header = ["data set", "likeness", "false alarms, first half", "false alarms, besides", "pairs besides"]
    header += ["in a million pairs", "recall, first half", "recall, other half"]
    lines = []
    for each, wrong, sides in zip(sets, false, found, strict=True):
        for step in STEPS:
            counts = [sum(told >= step for told in side) for side in wrong]
            recalls = []
            for side in sides:
                told = np.concatenate(list(side.values()))
                recalls.append(f"{(told >= step).mean():.4f}")
            besides = each.pairs()[1]
            lines.append([each.name, step, *counts, besides, per_million(counts[1], besides), *recalls])
    print_table(header, lines)
    if tables:
        write_table(tables / "near-duplicates-thresholds.csv", header, lines)


def called_table(sets: Sequence[Pictures], called: Sequence[Sequence[NearDuplicate]]) -> None:
    lines, within = [], []
    for each, pairs in zip(sets, called, strict=True):
        own = {pair for pair in pairs if len(set(each.lesions(pair).split())) == 1}
        within.append([each.name, sum(pair.likeness >= ALIKE for pair in own)])
        lines += [
            [
                *(each.name, each.lesions(pair), f"{pair.likeness:.2f}"),
                "yes" if pair.likeness >= ALIKE else "no",
                SAME.get(each.lesions(pair), "a false alarm"),
            ]
            for pair in sorted(pairs, key=lambda pair: -pair.likeness)
            if pair not in own and (pair.likeness >= ALIKE or each.lesions(pair) in SAME)
        ]
    print_table(["data set", "lesions", "likeness", "called", "what it is"], lines)
    print_table(["data set", "pairs of one lesion that are called"], within)


def size_table(sets: Sequence[Pictures], places: Sequence[NDArray[np.int64]], seed: int) -> None:
    lines = []
    for size in SIZES:
        cells = []
        for copy in ((0.0, 0.5, 60), (0.05, 0.5, 60)):
            for each, at in zip(sets, places, strict=True):
                told = likeness_of_copies(each, at, copy, size, seed)
                cells.append(share(int((told >= ALIKE).sum()), len(told)))
        lines.append([size, *cells])
    worst = [f"{crop}, {each.name}" for crop in ("whole", "crop 5%") for each in sets]
    print_table(["pixels", *worst], lines)


if __name__ == "__main__":
    start(main, "--pictures 3", pictures=True)

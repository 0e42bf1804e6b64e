"""Does the angle of the skin in a picture follow the declared skin tone? MILK10k, each kind of picture alone.

Prints, for close-ups and for dermoscopic pictures: how far angles and tones agree, with 95 % intervals from
replicates drawn by lesion; angles by tone; and how often a picture would be warned of, if its tone is right
and if another were declared, with ranges learned from one half of the lesions and judged on the other. Beside
the angle of skin stands that of all pixels, lesion, hair and background included.

    DERMFED_DATA=... python benchmarks/skin_tone.py
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from quick import start
from tables import print_conditions, print_table

from clients.data.adapters.table import make_adapter
from clients.data.inspect.tone_angles import RULE
from clients.data.inspect.tone_check import estimate_text
from clients.data.manifests.groups import number_lesions
from clients.data.manifests.manifest import Row
from clients.data.pictures.files import PictureReader, locate
from clients.data.progress import progress
from personalization.calibration.tone_ranges import agreement, count_angles, learn_ranges, warning_rates
from registry.bundle.pictures.rule import decode_picture
from registry.bundle.skin_tone import from_dark, lab, skin_tone_angle, typology_angle

SCALE = "milk10k"
THIRDS = (("0", "1", "2"), ("3",), ("4", "5"))  # dark, medium, light, as in the recipe fedauto@milk10k
METHODS = ("skin beside the lesion", "all pixels")
Angles = Mapping[str, list[float | None]]


def all_pixels_angle(pixels: np.ndarray) -> float | None:
    lightness, _, yellowness = np.median(lab(pixels).reshape(-1, 3), axis=0)
    return typology_angle(lightness, yellowness) if yellowness > 0 else None


def look(rows: Sequence[Row], folder: Path) -> Angles:
    """The angles of each picture by both methods."""
    found: dict[str, list[float | None]] = {method: [] for method in METHODS}
    with PictureReader() as reader, progress("looking at skin", len(rows)) as advance:
        for row in rows:
            pixels = decode_picture(reader.read(locate(row.image, folder)), RULE)
            found[METHODS[0]].append(skin_tone_angle(pixels))
            found[METHODS[1]].append(all_pixels_angle(pixels))
            advance(1)
    return found


def agreement_table(
    kinds: Mapping[str, Sequence[Row]], angles: Mapping[str, Angles], replicates: int
) -> None:
    lines, tones = [], []
    for kind, rows in kinds.items():
        for method in METHODS:
            found = angles[kind][method], [row.skin_tone for row in rows], SCALE
            drawn = count_angles(*found, lesions=number_lesions(rows), replicates=replicates)
            told = agreement(count_angles(*found), drawn, THIRDS)
            lines.append(
                [
                    *(kind, method, told.pictures, f"{told.silent:.3f}"),
                    *map(estimate_text, (told.spearman, told.kappa, told.right)),
                    *(f"{told.by_chance:.2f}", estimate_text(told.balanced)),
                ]
            )
            if method == METHODS[0]:
                tones += [
                    [
                        *(kind, line.tone, line.pictures, line.silent),
                        " / ".join(f"{angle:.1f}" for angle in line.quartiles or ()),
                        estimate_text(line.above_darker),
                    ]
                    for line in told.tones
                ]
    print_table(
        [
            *("pictures of", "angle of", "n", "no answer", "rank correlation", "weighted kappa"),
            *("right third", "by chance", "right third, mean of thirds"),
        ],
        lines,
    )
    print_table(
        ["pictures of", "tone", "n", "no answer", "quartiles, degrees", "above the next darker tone"], tones
    )


def held_out_rates(rows: Sequence[Row], found: Sequence[float | None]) -> np.ndarray:
    """`(tones, tones declared)`: ranges learned from the other half of the lesions."""
    half = number_lesions(rows) % 2
    tones = len(from_dark(SCALE))
    warned, looked_at = np.zeros((tones, tones)), np.zeros((tones, tones))
    counts = [
        count_angles(
            [angle for angle, side in zip(found, half, strict=True) if side == mine],
            [row.skin_tone for row, side in zip(rows, half, strict=True) if side == mine],
            SCALE,
        )
        for mine in (0, 1)
    ]
    for mine in (0, 1):
        rates = warning_rates(counts[mine], learn_ranges(counts[1 - mine]))
        n = np.where(np.isnan(rates), 0, counts[mine].angles.sum(axis=1)[:, np.newaxis])
        warned += np.where(n > 0, rates, 0) * n
        looked_at += n
    return np.divide(warned, looked_at, out=np.full_like(warned, np.nan), where=looked_at > 0)


def warning_table(kind: str, rows: Sequence[Row], found: Sequence[float | None]) -> None:
    tones, rates = from_dark(SCALE), held_out_rates(rows, found)
    n = count_angles(found, [row.skin_tone for row in rows], SCALE).angles.sum(axis=1)
    right = np.nansum(np.diagonal(rates) * n) / n[~np.isnan(np.diagonal(rates))].sum()
    print(f"{kind}: of pictures with their own tone, {right:.4f} are warned of\n")
    print_table(
        ["their tone", "n", *(f"declared {tone}" for tone in tones)],
        [
            [tone, int(count), *("–" if np.isnan(rate) else f"{rate:.3f}" for rate in line)]
            for tone, count, line in zip(tones, n, rates, strict=True)
        ],
    )


def another_kind(kinds: Mapping[str, Sequence[Row]], angles: Mapping[str, Angles]) -> None:
    """How often ranges of one kind would warn of pictures of the other that have their own tone."""
    lines = []
    for learned in kinds:
        for judged in kinds:
            counts = []
            for kind, side in ((learned, 0), (judged, 1)):
                mine = [
                    (angle, row.skin_tone)
                    for angle, row, half in zip(
                        angles[kind][METHODS[0]], kinds[kind], number_lesions(kinds[kind]) % 2, strict=True
                    )
                    if half == side
                ]
                counts.append(count_angles([angle for angle, _ in mine], [tone for _, tone in mine], SCALE))
            rates = np.diagonal(warning_rates(counts[1], learn_ranges(counts[0])))
            lines.append([learned, judged, *("–" if np.isnan(rate) else f"{rate:.3f}" for rate in rates)])
    print_table(["ranges of", "asked about", *(f"tone {tone}" for tone in from_dark(SCALE))], lines)


def same_skin(kinds: Mapping[str, Sequence[Row]], angles: Mapping[str, Angles]) -> None:
    """The rank correlation of the angles of both pictures of a lesion."""
    first, second = (
        {row.lesion_id: angle for row, angle in zip(rows, angles[kind][METHODS[0]], strict=True)}
        for kind, rows in kinds.items()
    )
    pairs = [(first[name], second[name]) for name in first if None not in (first[name], second.get(name))]
    ranks = np.argsort(np.argsort(np.array(pairs, dtype=float), axis=0), axis=0)
    print(f"both pictures of {len(pairs)} lesions: rank correlation {np.corrcoef(ranks.T)[0, 1]:.2f}\n")


def main(
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates, for intervals.")] = 500,
) -> None:
    """Look at every picture and print the tables."""
    folder = Path(os.environ["DERMFED_DATA"]) / "milk10k"
    manifest = make_adapter("milk10k", {}).manifest(folder)
    names = {"clinical: close-up": "close-up", "dermoscopic": "dermoscopic"}
    kinds = {
        name: [row for row in manifest.rows if row.extra["image_type"] == kind]
        for kind, name in names.items()
    }
    print_conditions("Skin tone from pixels", {"pixels": RULE.size, "replicates": replicates})
    angles = {kind: look(rows, manifest.folder) for kind, rows in kinds.items()}
    agreement_table(kinds, angles, replicates)
    for kind, rows in kinds.items():
        warning_table(kind, rows, angles[kind][METHODS[0]])
    another_kind(kinds, angles)
    same_skin(kinds, angles)


if __name__ == "__main__":
    start(main, "--replicates 10", pictures=True)

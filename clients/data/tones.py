"""Declared skin tones against measured angles: their agreement, and the pictures that contradict.

Measuring the skin's typology angle in each picture of a manifest whose tone is declared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from clients.data.manifest import Manifest, Row, number_lesions
from clients.data.picture_files import PictureReader, UnreadablePictureError, in_threads, locate
from personalization.calibration.tone_ranges import Agreement, Estimate, agreement, count_angles, learn_ranges
from registry.bundle.errors import PictureError
from registry.bundle.pictures.rule import PictureRule, decode_picture
from registry.bundle.skin_tone import ToneRange, ToneRanges, contradicted_by, from_dark, skin_tone_angle

RULE = PictureRule(size=128)
"""How pictures are decoded: pixels enough for a median, and quick."""


@dataclass(frozen=True)
class MeasuredTone:
    """The typology angle of one picture, for comparison with its declared tone.

    Attributes:
        row: the picture.
        angle: of its skin, degrees; None where too little skin shows.
    """

    row: Row
    angle: float | None


@dataclass(frozen=True)
class MeasuredTones:
    """The measured pictures of manifests.

    Attributes:
        pictures: those with a declared tone that could be decoded.
        undeclared: how many have no tone; they were not looked at, and have none now.
        broken: what is wrong with each picture that cannot be decoded, one line each.
    """

    pictures: tuple[MeasuredTone, ...]
    undeclared: int
    broken: tuple[str, ...]


def measure_tones(*manifests: Manifest) -> MeasuredTones:
    """Decode every picture whose tone is declared and measure the angle of its skin."""
    declared = [(row, one.folder) for one in manifests for row in one.rows if row.skin_tone]
    with PictureReader() as reader:

        def measure(picture: tuple[Row, Path]) -> MeasuredTone | str:
            row, folder = picture
            try:
                pixels = decode_picture(reader.read(locate(row.image, folder)), RULE)
            except (UnreadablePictureError, PictureError) as error:
                return f"{row.image}: {error}"
            return MeasuredTone(row, skin_tone_angle(pixels))

        found = list(in_threads("looking at skin", measure, declared))
    return MeasuredTones(
        tuple(one for one in found if isinstance(one, MeasuredTone)),
        sum(len(one.rows) for one in manifests) - len(declared),
        tuple(one for one in found if isinstance(one, str)),
    )


@dataclass(frozen=True)
class Contradiction:
    """A picture whose angle contradicts its declared tone.

    Attributes:
        image: as the manifest names it.
        tone: as declared.
        angle: of its skin, degrees.
        looks_like: the tones whose central half its angle lies in, two steps away or more.
    """

    image: str
    tone: str
    angle: float
    looks_like: tuple[str, ...]


@dataclass(frozen=True)
class ToneCheck:
    """The comparison for pictures of one scale and one kind.

    Attributes:
        kind: the value of the column that they were parted by; empty where they were not.
        agreement: of angles and tones.
        ranges: the angles of each tone, learned from these pictures.
        contradictions: the pictures outside the range of their own tone and amid another's.
    """

    kind: str
    agreement: Agreement
    ranges: dict[str, ToneRange]
    contradictions: tuple[Contradiction, ...]

    @property
    def for_bundles(self) -> ToneRanges | None:
        """The field `tones` of a job's stage `calibrate`; None where nothing is known."""
        follows = self.agreement.spearman.value
        if follows is None or not self.ranges:
            return None
        return ToneRanges(scale=self.agreement.scale, rank_correlation=round(follows, 3), ranges=self.ranges)


def check_tones(
    seen: Sequence[MeasuredTone], *, by: str | None = None, min_count: int = 10, replicates: int = 200
) -> list[ToneCheck]:
    """Compare angles with declared tones, each scale and each kind of picture for itself.

    Args:
        seen: the pictures; see `measure_tones`.
        by: the column that tells kinds of pictures apart, such as close-up and dermoscopic.
        min_count: a tone with fewer angles has no range: it is neither contradicted nor resembled.
        replicates: bootstrap replicates for intervals, drawn by lesion.
    """
    parts: dict[tuple[str, str], list[MeasuredTone]] = {}
    for picture in seen:
        kind = picture.row.value(by) if by else ""
        parts.setdefault((kind, picture.row.skin_tone_scale), []).append(picture)
    return [_check(kind, scale, part, min_count, replicates) for (kind, scale), part in sorted(parts.items())]


def _check(kind: str, scale: str, seen: Sequence[MeasuredTone], min_count: int, replicates: int) -> ToneCheck:
    angles = [picture.angle for picture in seen]
    tones = [picture.row.skin_tone for picture in seen]
    counts = count_angles(angles, tones, scale)
    drawn = (
        count_angles(
            angles,
            tones,
            scale,
            lesions=number_lesions([picture.row for picture in seen]),
            replicates=replicates,
        )
        if replicates
        else None
    )
    ranges = learn_ranges(counts, min_count)
    found = (
        (picture, picture.angle, contradicted_by(picture.angle, picture.row.skin_tone, scale, ranges))
        for picture in seen
        if picture.angle is not None
    )
    return ToneCheck(
        kind,
        agreement(counts, drawn),
        ranges,
        tuple(
            Contradiction(picture.row.image, picture.row.skin_tone, round(angle, 1), others)
            for picture, angle, others in found
            if others
        ),
    )


def tone_table(check: ToneCheck) -> Table:
    """A table for people: a line for each tone, and below it the agreement over all."""
    agreed = check.agreement
    title = ", ".join(filter(None, (agreed.scale, check.kind)))
    table = Table(
        "tone", "pictures", "no answer", "quartiles", "1 % to 99 %", "above the darker", title=title
    )
    for tone, line in zip(from_dark(agreed.scale), agreed.tones, strict=True):
        edges = check.ranges.get(tone)
        table.add_row(
            tone,
            str(line.pictures),
            str(line.silent),
            "" if line.quartiles is None else " / ".join(f"{angle:.1f}" for angle in line.quartiles),
            "" if edges is None else f"{edges.low:.0f} to {edges.high:.0f}",
            estimate_text(line.above_darker),
        )
    table.caption = (
        f"rank correlation {estimate_text(agreed.spearman)}; weighted kappa {estimate_text(agreed.kappa)}\n"
        f"right third {estimate_text(agreed.right)}, by chance {_number(agreed.by_chance)}; "
        f"no answer {_number(agreed.silent)}"
    )
    table.caption_justify = "left"
    return table


def estimate_text(estimate: Estimate) -> str:
    """A figure and its interval; a dash where it is undefined."""
    if estimate.interval is None:
        return _number(estimate.value)
    low, high = estimate.interval
    return f"{_number(estimate.value)} [{_number(low)}, {_number(high)}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")

"""Image quality: whether a picture can be judged, from the very pixels that the model sees.

**Blur** is the blur effect B of Crété-Roffet et al. (2007): a picture is compared with itself after a moving
average. A sharp one loses much of its variation, a blurred one little. With F the grey picture, F̄ its moving
average along one direction, D = |F(i) − F(i − 1)| and D̄ the same of F̄,

    b = 1 − Σ max(0, D − D̄) / Σ D,

and B is the larger b of both directions. It is a ratio: how dark a skin is, or how strong its contrast, is
not in it. Departures: the average is over 5 pixels where theirs is over 9, for we look at a small picture;
where the average would reach beyond the border nothing is counted.

**Light** is measured at the ends of the histogram in a disc in the middle (a dermoscope's rim is outside),
not by the mean, which depends on the skin: how bright the brightest channel gets in the brightest
hundredth, and in how large a share two channels are at their ceiling, where colour is lost.

**Contrast** is (high − low) / high between the 5th and the 95th percentile in the disc, of the channel
where it is largest: nothing stands out where it is near 0.

Every rule has two thresholds. Past the first the picture has an issue, which is reported and nothing more;
past the second it is bad, and the answer is `retake`. They were measured on close-ups, dermoscopic pictures
and pictures of four clinics (docs/results/service.md): of pictures
that people had thought good enough to keep, no rule calls more than one in a hundred bad in any clinic or
skin tone, and all of them together call one or two in a thousand bad.

What cannot be detected with so few false alarms has no rule. That is so of a lesion cut by the border: real
lesions often fill the picture.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from registry.bundle.pictures.rule import PictureRule
from serving.protocol.schemas import Quality

IssueCode = Literal[
    "too-small", "too-dark", "too-bright", "nothing-to-see", "blurred", "colours-unknown", "transparent"
]

SIDES: Final = (128, 64)
"""Sides of the small picture that blur is measured on: the largest that the model's picture has. Pixels."""

SAMPLED: Final = 64
"""At most so many pixels of each side are looked at for light and contrast."""

RADIUS: Final = 0.8
"""Of the disc in the middle, in half sides."""

WINDOW: Final = 5
"""Pixels of the moving average."""

CEILING: Final = 253
"""From this value on a channel counts as at its ceiling; JPEG moves 255 by a little."""


@dataclass(frozen=True)
class Measures:
    """The quality measures of one picture.

    Attributes:
        side: of the picture that blur was measured on, pixels; one of `SIDES`.
        blur: B, from 0 (sharp) to 1; 0 where there is no variation at all.
        brightest: the 99th percentile of the brightest channel, 0 to 255.
        burnt: the share of pixels with two channels at their ceiling.
        contrast: from 0 (one flat colour) to 1.
    """

    side: int
    blur: float
    brightest: float
    burnt: float
    contrast: float


def measure(pixels: NDArray[np.uint8]) -> Measures | None:
    """Measures a picture, `(size, size, 3)` RGB; None where it is too small to measure."""
    size = len(pixels)
    side = next((side for side in SIDES if side <= size), None)
    if side is None:
        return None
    step = -(-size // SAMPLED)
    seen = pixels[::step, ::step]
    channels = np.ascontiguousarray(seen[_disc(len(seen))].T)
    last = channels.shape[1] - 1
    low, high = np.sort(channels, axis=1)[:, [round(0.05 * last), round(0.95 * last)]].astype(float).T
    return Measures(
        side=side,
        blur=blur_effect(_grey(pixels, side)),
        brightest=float(np.sort(channels.max(axis=0))[round(0.99 * last)]),
        burnt=float(((channels >= CEILING).sum(axis=0, dtype=np.uint8) >= 2).mean()),
        contrast=float(((high - low) / np.maximum(high, 1)).max()),
    )


def blur_effect(grey: NDArray[np.float32]) -> float:
    """The blur effect B of a grey picture `(height, width)`, of more than `WINDOW` pixels on both sides."""
    return max(_blur_along(grey), _blur_along(grey.T))


def _blur_along(grey: NDArray[np.float32]) -> float:
    """B along the first axis."""
    rows = np.ascontiguousarray(grey)
    inner = len(rows) - WINDOW + 1
    sums = rows[:inner].copy()
    for shift in range(1, WINDOW):
        sums += rows[shift : shift + inner]
    half = WINDOW // 2
    varies = np.abs(np.diff(rows[half : half + inner], axis=0))
    lost = np.maximum(varies - np.abs(np.diff(sums, axis=0)) / WINDOW, 0)
    total = float(varies.sum(dtype=np.float64))
    return 1 - float(lost.sum(dtype=np.float64)) / total if total else 0.0


def _grey(pixels: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    """The luma, `(side, side)`. It is not rounded: the steps of a rounded one look like sharp edges."""
    luma = Image.fromarray(pixels).convert("F")
    return np.asarray(luma if luma.size == (side, side) else luma.resize((side, side), Image.Resampling.BOX))


@lru_cache(maxsize=8)
def _disc(size: int) -> NDArray[np.bool_]:
    """Which pixels of a square lie within the disc, `(size, size)`."""
    place = (np.arange(size) + 0.5) / size * 2 - 1
    disc: NDArray[np.bool_] = np.hypot(place[:, np.newaxis], place) < RADIUS
    disc.flags.writeable = False
    return disc


@dataclass(frozen=True)
class Threshold:
    """The two thresholds of a rule, rising or falling: past `issue` it is reported, past `bad` refused."""

    issue: float
    bad: float

    def passed(self, value: float) -> Literal["issue", "bad"] | None:
        """Which of them a value is past."""
        sign = 1 if self.bad > self.issue else -1
        if sign * value > sign * self.bad:
            return "bad"
        return "issue" if sign * value > sign * self.issue else None


BRIGHTEST: Final = Threshold(issue=90, bad=70)
"""Too dark below: how bright the brightest channel gets in the brightest hundredth, of 255."""

BURNT: Final = Threshold(issue=0.1, bad=0.3)
"""Too bright above: the share of pixels that have lost their colour."""

CONTRAST: Final = Threshold(issue=0.12, bad=0.05)
"""Nothing to see below."""

TRANSPARENT: Final = Threshold(issue=0.001, bad=0.01)
"""Partly empty above: the share of pixels that are transparent. They show no skin, and a model that sees them
white may be surer than it is of the whole picture."""

BLUR: Final[Mapping[int, Threshold]] = {128: Threshold(0.70, 0.76), 64: Threshold(0.73, 0.78)}
"""Blurred above, by the side of the picture that it was measured on."""


@dataclass(frozen=True)
class QualityIssue:
    """One quality issue of a picture.

    Attributes:
        code: what is wrong, in a word.
        bad: whether another picture must be taken.
        text: what was found and what to do, for the person with the camera.
    """

    code: IssueCode
    bad: bool
    text: str


_TEXTS: Final[Mapping[IssueCode, str]] = {
    "too-dark": "The picture is {rather} dark: even its brightest part has {found.brightest:.0f} of 255. "
    "Take it in more light, by a window or with the flash.",
    "too-bright": "The picture is {rather} bright: {burnt:.0f}% of it has lost its colour. Take it with "
    "less light, without the flash or from farther away.",
    "nothing-to-see": "{nothing} stands out in the picture. Put the lesion into the middle, so near that it "
    "fills a third of the picture.",
    "blurred": "The picture is {rather} blurred. Wipe the lens, hold the camera still and let it focus on "
    "the lesion.",
}


def measured_issues(found: Measures) -> Iterator[QualityIssue]:
    """The issues of light, contrast and blur, up to the first bad one: none after it would mean anything."""
    rules: tuple[tuple[IssueCode, Threshold, float], ...] = (
        ("too-dark", BRIGHTEST, found.brightest),
        ("too-bright", BURNT, found.burnt),
        ("nothing-to-see", CONTRAST, found.contrast),
        ("blurred", BLUR[found.side], found.blur),
    )
    for code, threshold, value in rules:
        if passed := threshold.passed(value):
            bad = passed == "bad"
            yield QualityIssue(
                code,
                bad,
                _TEXTS[code].format(
                    rather="too" if bad else "rather",
                    nothing="Nothing" if bad else "Hardly anything",
                    found=found,
                    burnt=100 * found.burnt,
                ),
            )
            if bad:
                return


@dataclass(frozen=True)
class QualityAssessment:
    """The quality issues of a picture; mostly none."""

    issues: tuple[QualityIssue, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether the picture can be judged; else the answer is `retake`."""
        return not any(issue.bad for issue in self.issues)

    @property
    def shown(self) -> Quality:
        """The quality as a diagnosis reports it."""
        return Quality(acceptable=self.acceptable, issues=[issue.text for issue in self.issues])


def of_all(qualities: Sequence[QualityAssessment], kinds: Sequence[str]) -> QualityAssessment:
    """The quality of several pictures of a lesion: each must be good, and issues name their picture."""
    return QualityAssessment(
        tuple(
            replace(issue, text=f"Picture {number} ({kind}): {issue.text}")
            for number, (quality, kind) in enumerate(zip(qualities, kinds, strict=True), start=1)
            for issue in quality.issues
        )
    )


def assess_quality(
    width: int,
    height: int,
    rule: PictureRule,
    pixels: NDArray[np.uint8],
    unused_profile: str | None = None,
    transparent: float = 0.0,
) -> QualityAssessment:
    """Assesses the quality of a picture; of one that was blown up nothing is measured.

    Args:
        width: of the picture as it was sent, pixels.
        height: likewise.
        rule: how the model wants its pictures.
        pixels: the picture as the model sees it, `(size, size, 3)` RGB.
        unused_profile: why its colours were not converted as it declares them; None where they were.
        transparent: the share of its pixels that are transparent.
    """
    issues: list[QualityIssue] = []
    if unused_profile:
        text = (
            f"The colours of the picture are not known: {unused_profile}. They were taken as sRGB, and may "
            "be off. Send the picture as the camera made it, or save it in sRGB."
        )
        issues.append(QualityIssue("colours-unknown", False, text))
    if passed := TRANSPARENT.passed(transparent):
        text = (
            f"{max(1, round(100 * transparent))}% of the picture is transparent and shows no skin. Send the "
            "picture as the camera took it."
        )
        issues.append(QualityIssue("transparent", passed == "bad", text))
    if min(width, height) < rule.size:
        text = (
            f"The picture has {width} x {height} pixels; the model looks at {rule.size} x {rule.size}. Take "
            "it from nearer, or send it in its full size."
        )
        return QualityAssessment((QualityIssue("too-small", True, text), *issues))
    if all(not issue.bad for issue in issues) and (found := measure(pixels)):
        issues += measured_issues(found)
    return QualityAssessment(tuple(issues))

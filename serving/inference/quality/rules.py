"""The rules of image quality: what is an issue, past which thresholds, and what to do about it.

Every rule has two thresholds. Past the first the picture has an issue, which is reported and nothing more;
past the second it is bad, and the answer is `retake`. They were measured on close-ups, dermoscopic pictures
and pictures of four clinics (`benchmarks/picture_quality.py`, docs/results/service.md): of pictures
that people had thought good enough to keep, no rule calls more than one in a hundred bad in any clinic or
skin tone, and all of them together call one or two in a thousand bad.

What cannot be detected with so few false alarms has no rule. That is so of a lesion cut by the border: real
lesions often fill the picture.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from registry.bundle.pictures.rule import PictureRule
from serving.inference.quality.measures import Measures

IssueCode = Literal["too-small", "too-dark", "too-bright", "nothing-to-see", "blurred", "colours-unknown"]


@dataclass(frozen=True)
class Threshold:
    """The two thresholds of a rule: past `issue` there is an issue, past `bad` the picture is unusable."""

    issue: float
    bad: float


BRIGHTEST: Final = Threshold(issue=90, bad=70)
"""Too dark below: how bright the brightest channel gets in the brightest hundredth, of 255."""

BURNT: Final = Threshold(issue=0.1, bad=0.3)
"""Too bright above: the share of pixels that have lost their colour."""

CONTRAST: Final = Threshold(issue=0.12, bad=0.05)
"""Nothing to see below."""

BLUR: Final[Mapping[int, Threshold]] = {128: Threshold(0.70, 0.76), 64: Threshold(0.73, 0.78)}
"""Blurred above, by the side of the picture that it was measured on."""


_TOO_DARK: Final = (
    "The picture is too dark: even its brightest part has {brightest} of 255. Take it in more light, by a "
    "window or with the flash."
)
_DARK: Final = (
    "The picture is rather dark: even its brightest part has {brightest} of 255. Take it in more light, by a "
    "window or with the flash."
)
_TOO_BRIGHT: Final = (
    "The picture is too bright: {burnt}% of it has lost its colour. Take it with less light, without the "
    "flash or from farther away."
)
_BRIGHT: Final = (
    "The picture is rather bright: {burnt}% of it has lost its colour. Take it with less light, without the "
    "flash or from farther away."
)
_NOTHING: Final = (
    "Nothing stands out in the picture. Put the lesion into the middle, so near that it fills a third of the "
    "picture."
)
_HARDLY_ANYTHING: Final = (
    "Hardly anything stands out in the picture. Put the lesion into the middle, so near that it fills a "
    "third of the picture."
)
_TOO_BLURRED: Final = (
    "The picture is too blurred. Wipe the lens, hold the camera still and let it focus on the lesion."
)
_BLURRED: Final = (
    "The picture is rather blurred. Wipe the lens, hold the camera still and let it focus on the lesion."
)


@dataclass(frozen=True)
class QualityIssue:
    """One quality issue of a picture.

    Attributes:
        code: what is wrong, in a word.
        bad: whether another picture has to be taken.
        text: what was found and what to do, for the person with the camera.
    """

    code: IssueCode
    bad: bool
    text: str


def too_small(width: int, height: int, rule: PictureRule) -> QualityIssue | None:
    """The issue of fewer pixels than the model sees: blown up, the picture lacks details."""
    if min(width, height) >= rule.size:
        return None
    return QualityIssue(
        "too-small",
        True,
        (
            f"The picture has {width} x {height} pixels; the model looks at {rule.size} x {rule.size}. Take "
            "it from nearer, or send it in its full size."
        ),
    )


def light(found: Measures) -> QualityIssue | None:
    """The issue of too little light, or of so much that colour is lost; skin tone has no part in it."""
    if found.brightest < BRIGHTEST.issue:
        bad = found.brightest < BRIGHTEST.bad
        return QualityIssue(
            "too-dark", bad, _TOO_DARK if bad else _DARK.format(brightest=f"{found.brightest:.0f}")
        )
    if found.burnt > BURNT.issue:
        bad = found.burnt > BURNT.bad
        return QualityIssue(
            "too-bright", bad, _TOO_BRIGHT if bad else _BRIGHT.format(burnt=f"{100 * found.burnt:.0f}")
        )
    return None


def nothing_to_see(found: Measures) -> QualityIssue | None:
    """The issue of one colour from edge to edge: a wall, a sheet of paper, a finger on the lens."""
    if found.contrast >= CONTRAST.issue:
        return None
    bad = found.contrast < CONTRAST.bad
    return QualityIssue("nothing-to-see", bad, _NOTHING if bad else _HARDLY_ANYTHING)


def blurred(found: Measures) -> QualityIssue | None:
    """The issue of blur: details that the model looks at are smeared."""
    threshold = BLUR[found.side]
    if found.blur <= threshold.issue:
        return None
    bad = found.blur > threshold.bad
    return QualityIssue("blurred", bad, _TOO_BLURRED if bad else _BLURRED)


def colours_unknown(why: str) -> QualityIssue:
    """The issue of a colour profile that cannot be used, `why` being "it …"."""
    return QualityIssue(
        "colours-unknown",
        False,
        (
            f"The picture has a colour profile that cannot be used: {why}. Its colours were taken as sRGB, "
            "and may be off. Send the picture as the camera made it, or save it in sRGB."
        ),
    )

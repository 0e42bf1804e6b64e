"""Skin tone: the scales on which it is declared, and how light skin looks in a picture.

Scales are never mixed and never converted: a Monk 6 is not a Fitzpatrick IV, and `milk10k` runs from dark
to light while the others run from light to dark. Values are strings; only their spelling is unified.

The individual typology angle shows how light skin looks in a picture, and when that contradicts a declared
tone: ITA = arctan((L* − 50) / b*) · 180 / π in degrees (Chardon et al. 1991), larger for lighter skin, of the
median L* and the median b* of the pixels that look like skin and lie outside the middle of the picture, where
the lesion is. L*a*b* is CIELAB under D65.

It is a check on what was declared and nothing else. In photographs the angle depends on light, exposure,
white balance and inflammation as much as on the skin; published work finds it a poor guide (Groh et al.
2021). So no model is chosen by it, and no tone that is missing is filled in with it.

Departures: Kinyanjui et al. (2020) and Groh et al. (2021) find skin with a trained network; here a few rules
on colour and place do. Of Kinyanjui's mean within one standard deviation we take the median instead.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from registry.bundle.frozen import Frozen
from registry.bundle.text import nearest

SCALES: Mapping[str, tuple[str, ...]] = {
    "fitzpatrick": ("1", "2", "3", "4", "5", "6"),  # 1 (I) very light to 6 (VI) very dark
    "monk": ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"),  # 1 lightest to 10 darkest
    "milk10k": ("0", "1", "2", "3", "4", "5"),  # 0 very dark to 5 very light
    "ddi": ("12", "34", "56"),  # pairs of Fitzpatrick types
}

_ROMAN = {"I": "1", "II": "2", "III": "3", "IV": "4", "V": "5", "VI": "6"}


def read_scale(scale: str) -> str:
    """The scale's name as this module spells it.

    Raises:
        ValueError: no such scale.
    """
    name = scale.strip().lower()
    if name not in SCALES:
        raise ValueError(f"skin tone scale {scale!r} does not exist; {nearest(name, list(SCALES))}")
    return name


def read_tone(value: str, scale: str) -> str:
    """A declared tone as this module spells it: `IV` and `4.0` on the Fitzpatrick scale are `4`.

    Raises:
        ValueError: no such scale, or no such value on it.
    """
    name = read_scale(scale)
    tone = value.strip()
    if name == "fitzpatrick":
        tone = _ROMAN.get(tone.upper(), tone)
    # A column with gaps that passed through a float column comes back as "4.0".
    tone = tone.removesuffix(".0")
    if tone not in SCALES[name]:
        raise ValueError(
            f"skin tone {value!r} is not on the scale {name}; allowed: {allowed_tones(name)}, or empty"
        )
    return tone


def allowed_tones(scale: str) -> str:
    """The values of a known scale as messages list them."""
    tones = ", ".join(SCALES[scale])
    return f"{tones} (or I to VI)" if scale == "fitzpatrick" else tones


def canonical_tone(value: str, scale: str) -> str:
    """The canonical spelling of a tone; unchanged where the scale or the value is unknown."""
    try:
        return read_tone(value, scale)
    except ValueError:
        return value


ANGLE_BINS = 180
"""Bins of one degree each, from −90 to 90: the resolution of everything that is learned of angles."""

CAUTION = (
    "The angle is estimated from the picture's colours, which depend on light, white balance, exposure and "
    "inflammation: published work finds it unreliable in photographs, and in dermoscopic pictures it does "
    "not follow the skin tone. Use it to look a declared tone up again; never to choose a model, and never "
    "to fill in a tone that is missing."
)

# Which pixels are taken for skin beside the lesion.
CENTRE = 0.7  # half-axes of the ellipse in the middle that is left out, in half sides of the picture
DARK = 10.0  # up to this L* a pixel is the rim of a dermoscope, and so is what lies next to it
GREY = 5.0  # below this chroma, √(a*² + b*²), a pixel is background, or a reflection
THIN = 8.0  # how much darker or lighter (L*) than what is beside it a hair, a mark or a reflection is
LEAST_SHARE = 0.3  # of the pixels outside the ellipse, the least that must be left to say anything

_DARK_FIRST = frozenset({"milk10k"})  # the scales that run from dark to light

# sRGB to CIE XYZ (IEC 61966-2-1), each row divided by the white point D65 that it sums up to.
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_TO_XYZ = _TO_XYZ / _TO_XYZ.sum(axis=1, keepdims=True)
_LEVELS = np.arange(256) / 255
_LINEAR = np.where(_LEVELS <= 0.04045, _LEVELS / 12.92, ((_LEVELS + 0.055) / 1.055) ** 2.4)


class ToneRange(Frozen):
    """The angles that pictures of one declared tone have.

    Attributes:
        n: how many pictures it was learned from.
        low: 1st percentile, degrees.
        lower_quartile: 25th percentile.
        upper_quartile: 75th percentile.
        high: 99th percentile.
    """

    n: int = Field(ge=1)
    low: float = Field(ge=-90, le=90)
    lower_quartile: float = Field(ge=-90, le=90)
    upper_quartile: float = Field(ge=-90, le=90)
    high: float = Field(ge=-90, le=90)

    @model_validator(mode="after")
    def _in_order(self) -> "ToneRange":
        if not self.low <= self.lower_quartile <= self.upper_quartile <= self.high:
            raise ValueError(
                f"percentiles of a tone must rise; they are {self.low}, {self.lower_quartile}, "
                f"{self.upper_quartile} and {self.high}. Learn the ranges again"
            )
        return self


class ToneRanges(Frozen):
    """What a bundle knows of the angles of the declared tones that it was trained on.

    Attributes: scale: of the tones. rank_correlation: of angle and lightness over the pictures; near 0 the
        angle says nothing of the tone, as in dermoscopic pictures, and no picture contradicts anything.
        ranges: of each tone that has enough pictures.
    """

    scale: str
    rank_correlation: float = Field(ge=-1, le=1)
    ranges: Mapping[str, ToneRange]

    @model_validator(mode="after")
    def _of_one_scale(self) -> "ToneRanges":
        if unknown := sorted(set(self.ranges) - set(from_dark(self.scale))):
            raise ValueError(
                f"{', '.join(unknown)} is no tone of the scale {self.scale}; allowed: "
                f"{', '.join(from_dark(self.scale))}"
            )
        return self


def lab(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """CIELAB under D65 of sRGB pixels: `(..., 3)` to L*, a*, b* `(..., 3)`.

    With f(t) = ∛t, or t / (3 (6/29)²) + 4/29 up to t = (6/29)³:
    L* = 116 f(Y) − 16, a* = 500 (f(X) − f(Y)), b* = 200 (f(Y) − f(Z)).
    """
    xyz = _LINEAR[pixels] @ _TO_XYZ.T
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def typology_angle(lightness: float, yellowness: float) -> float:
    """ITA = arctan((L* − 50) / b*) in degrees, from −90 to 90.

    Args:
        lightness: L*.
        yellowness: b*.

    Raises:
        ValueError: b* is not above 0; skin is yellower than grey, and without that the angle says nothing.
    """
    if not yellowness > 0:
        raise ValueError(f"b* is {yellowness:g}; the angle is defined for skin, whose b* is above 0")
    return float(np.degrees(np.arctan((lightness - 50) / yellowness)))


def skin_tone_angle(pixels: NDArray[np.uint8]) -> float | None:
    """The individual typology angle of the skin in a picture, in degrees; None where too little of it shows.

    Larger is lighter. Some 128 pixels on both sides are enough, and quick.

    Args:
        pixels: RGB `(height, width, 3)`, uint8, at least 16 x 16.

    Raises:
        ValueError: `pixels` is no colour picture.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or min(pixels.shape[:2]) < 16:
        raise ValueError(
            f"pixels of shape {pixels.shape} and type {pixels.dtype} are no picture; they must be RGB, uint8 "
            "(height, width, 3) of at least 16 x 16: see registry.bundle.pictures.rule.decode_picture"
        )
    colours = lab(pixels)
    skin = skin_pixels(colours)
    if skin.sum() < LEAST_SHARE * _outside(skin.shape).sum():
        return None
    lightness, _, yellowness = np.median(colours[skin], axis=0)
    return typology_angle(float(lightness), float(yellowness))


def angle_bin(angle: float) -> int:
    """The bin of an angle, 0 to `ANGLE_BINS` − 1.

    Raises:
        ValueError: it is not from −90 to 90.
    """
    if not -90 <= angle <= 90:
        raise ValueError(f"an angle of {angle} degrees does not exist; angles are from −90 to 90")
    return min(int(np.floor(angle + 90)), ANGLE_BINS - 1)


def from_dark(scale: str) -> tuple[str, ...]:
    """The tones of a scale from the darkest to the lightest.

    Raises:
        ValueError: no such scale.
    """
    name = read_scale(scale)
    return SCALES[name] if name in _DARK_FIRST else SCALES[name][::-1]


def contradicted_by(angle: float, tone: str, scale: str, ranges: Mapping[str, ToneRange]) -> tuple[str, ...]:
    """The tones that a picture looks like rather than its declared one; mostly none.

    A picture contradicts its tone where its angle is outside that tone's central 98 % and inside the central
    half of a tone at least two steps away, lighter for too large an angle and darker for too small a one.

    Args:
        angle: of the picture, in degrees.
        tone: as it was declared.
        scale: the scale it was declared on.
        ranges: of the tones of that scale, from pictures of the same kind; tones may be missing, and a tone
            without a range is neither contradicted nor resembled.

    Raises:
        ValueError: no such scale, or no such tone on it.
    """
    tones = from_dark(scale)
    if tone not in tones:
        raise ValueError(f"skin tone {tone!r} is not on the scale {scale}; allowed: {', '.join(tones)}")
    own = ranges.get(tone)
    if own is None or own.low <= angle <= own.high:
        return ()
    position = tones.index(tone)
    farther = tones[position + 2 :] if angle > own.high else tones[: max(position - 1, 0)]
    return tuple(
        name
        for name in farther
        if name in ranges and ranges[name].lower_quartile <= angle <= ranges[name].upper_quartile
    )


def skin_pixels(colours: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which pixels of a picture in CIELAB are taken for skin next to the lesion, `(height, width)`.

    Left out are the ellipse in the middle, dark corners, reflections, hair and other thin lines, and what is
    grey or has no colour of skin (skin is redder and yellower than grey).
    """
    from scipy.ndimage import maximum_filter, minimum_filter  # a tenth of a second

    lightness, red, yellow = np.moveaxis(colours, -1, 0)
    lightness = lightness.astype(np.float32)
    width = 2 * max(1, round(min(lightness.shape) / 36)) + 1  # pixels; a hair is thinner
    closed = minimum_filter(maximum_filter(lightness, width, mode="nearest"), width, mode="nearest")
    opened = maximum_filter(minimum_filter(lightness, width, mode="nearest"), width, mode="nearest")
    thin = (closed - lightness > THIN) | (lightness - opened > THIN)
    rim = maximum_filter(lightness <= DARK, width, mode="nearest")
    coloured = (red > 0) & (yellow > 0) & (np.hypot(red, yellow) >= GREY)
    outside = _outside(lightness.shape)
    return np.asarray(outside & coloured & ~rim & ~maximum_filter(thin, 3, mode="nearest"), dtype=np.bool_)


def _outside(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which pixels lie outside the ellipse in the middle, `(height, width)`."""
    y, x = ((np.arange(side) + 0.5) / side * 2 - 1 for side in shape)
    return np.asarray(np.hypot(x[None, :], y[:, None]) > CENTRE)

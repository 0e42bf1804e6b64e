""""""

import numpy as np
import pytest

from registry.bundle.skin_tone import (
    ANGLE_BINS,
    SCALES,
    ToneRange,
    angle_bin,
    contradicted_by,
    lab,
    read_scale,
    read_tone,
    skin_pixels,
    skin_tone_angle,
)


@pytest.mark.parametrize(
    ("value", "tone"),
    [("IV", "4"), ("iv", "4"), ("4", "4"), ("4.0", "4"), (" VI ", "6"), ("I", "1")],
)
def test_fitzpatrick_is_spelt_in_one_way(value: str, tone: str) -> None:
    assert read_tone(value, "fitzpatrick") == tone


@pytest.mark.parametrize("scale", SCALES)
def test_every_value_of_a_scale_is_read_as_itself(scale: str) -> None:
    assert [read_tone(value, scale) for value in SCALES[scale]] == list(SCALES[scale])


@pytest.mark.parametrize(
    ("value", "scale"),
    [("0", "fitzpatrick"), ("7", "fitzpatrick"), ("VII", "fitzpatrick"), ("11", "monk"), ("IV", "monk"),
     ("6", "milk10k"), ("1", "ddi"), ("-1", "fitzpatrick"), ("4.5", "fitzpatrick")],
)  # fmt: skip
def test_values_off_the_scale_are_refused_with_what_is_allowed(value: str, scale: str) -> None:
    with pytest.raises(ValueError, match=f"not on the scale {scale}; allowed: {SCALES[scale][0]}, "):
        read_tone(value, scale)


def test_unknown_scale_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean `fitzpatrick`"):
        read_scale("fitspatrick")


LIGHT, BROWN, DARK = (227, 187, 158), (168, 120, 88), (78, 50, 40)

# Published CIELAB values (D65) of sRGB colours, to two places.
PUBLISHED = {
    (255, 0, 0): (53.24, 80.09, 67.20),
    (0, 255, 0): (87.74, -86.18, 83.18),
    (0, 0, 255): (32.30, 79.19, -107.86),
    (205, 133, 63): (61.75, 21.40, 47.92),
    (160, 82, 45): (43.80, 29.32, 35.64),
    (210, 180, 140): (74.98, 5.02, 24.43),
    (255, 255, 255): (100.0, 0.0, 0.0),
    (0, 0, 0): (0.0, 0.0, 0.0),
}


def plain(colour: tuple[int, int, int], height: int = 96, width: int = 128) -> np.ndarray:
    return np.full((height, width, 3), colour, dtype=np.uint8)


def angle_of(colour: tuple[int, int, int]) -> float:
    """By the formulas as they stand in CIE 15, one number after another."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    y = 0.2126729 * linear[0] + 0.7151522 * linear[1] + 0.0721750 * linear[2]
    z = (0.0193339 * linear[0] + 0.1191920 * linear[1] + 0.9503041 * linear[2]) / 1.08883

    def f(t: float) -> float:
        return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    return float(np.degrees(np.arctan((116 * f(y) - 16 - 50) / (200 * (f(y) - f(z))))))


@pytest.mark.parametrize(("colour", "published"), PUBLISHED.items())
def test_cielab_is_the_published_one(colour, published):
    assert lab(np.array(colour, dtype=np.uint8)) == pytest.approx(published, abs=0.01)


def with_lesion(pixels: np.ndarray) -> None:
    height, width = pixels.shape[:2]
    pixels[height // 4 : -height // 4, width // 4 : -width // 4] = (70, 30, 35)


def with_hair(pixels: np.ndarray) -> None:
    for column in range(2, pixels.shape[1], 12):
        pixels[:, column : column + 2] = (40, 28, 22)


def with_light_scratches(pixels: np.ndarray) -> None:
    for row in range(3, pixels.shape[0], 11):
        pixels[row : row + 2] = (255, 238, 205)


def with_dark_corners(pixels: np.ndarray) -> None:
    y, x = (np.linspace(-1, 1, side) for side in pixels.shape[:2])
    light = np.clip((1.15 - np.hypot(x[None, :], y[:, None])) * 12, 0, 1)
    pixels[:] = (pixels * light[:, :, None]).astype(np.uint8)


def with_reflections(pixels: np.ndarray) -> None:
    pixels[::8, ::8] = 255
    pixels[:20, :30] = 252


def with_grey_ruler(pixels: np.ndarray) -> None:
    pixels[:, :30] = (180, 181, 179)


def with_blue_cloth(pixels: np.ndarray) -> None:
    pixels[-25:] = (30, 70, 140)


@pytest.mark.parametrize("colour", [LIGHT, BROWN])
@pytest.mark.parametrize(
    "spoil",
    [
        with_lesion,
        with_hair,
        with_light_scratches,
        with_dark_corners,
        with_reflections,
        with_grey_ruler,
        with_blue_cloth,
    ],
)
def test_what_is_not_skin_does_not_move_the_angle(spoil, colour):
    pixels = plain(colour)
    spoil(pixels)
    spoilt = np.abs(pixels.astype(int) - plain(colour)).max(axis=-1) > 40
    assert spoilt.sum() > 100
    assert not (skin_pixels(lab(pixels)) & spoilt).any()
    assert skin_tone_angle(pixels) == pytest.approx(angle_of(colour), abs=1.0)


def test_a_patch_of_darker_skin_does_not_move_the_angle():
    pixels = plain(LIGHT)
    pixels[:30] = DARK
    assert skin_pixels(lab(pixels))[:20].mean() > 0.9
    assert skin_tone_angle(pixels) == pytest.approx(angle_of(LIGHT), abs=0.01)


def test_hair_is_no_skin_nor_what_lies_next_to_it():
    pixels = plain(LIGHT)
    pixels[:, 5:7] = (40, 28, 22)
    skin = skin_pixels(lab(pixels))
    assert not skin[:, 4:8].any()
    assert skin[:60, 118:].all()


@pytest.mark.parametrize(
    "colour", [(128, 128, 128), (190, 181, 178), (30, 70, 140), (255, 255, 255), (2, 1, 1)]
)
def test_a_picture_without_skin_gives_no_answer(colour):
    assert skin_tone_angle(plain(colour)) is None


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((64, 64), dtype=np.uint8),
        np.zeros((64, 64, 4), dtype=np.uint8),
        np.zeros((64, 64, 3), dtype=np.float32),
        np.zeros((8, 64, 3), dtype=np.uint8),
    ],
)
def test_what_is_no_picture_is_refused(pixels):
    with pytest.raises(ValueError, match=r"must be RGB, uint8 .* at least 16 x 16"):
        skin_tone_angle(pixels)


def spread(middle: float) -> ToneRange:
    return ToneRange(n=100, low=middle - 12, lower_quartile=middle - 4, upper_quartile=middle + 4,
                     high=middle + 12)  # fmt: skip


RANGES = {tone: spread(10.0 * place) for place, tone in enumerate(("0", "1", "2", "3", "4", "5"))}


@pytest.mark.parametrize(
    ("angle", "tone", "expected"),
    [
        (0, "0", ()),  # amid its own
        (12, "0", ()),  # at the end of its own
        (14, "0", ()),  # beyond it, but amid the next tone alone
        (22, "0", ("2",)),  # amid one that is two steps away
        (6, "2", ()),  # amid the next one only, the other way
        (25, "0", ()),  # between the central halves
        (50, "0", ("5",)),
        (0, "5", ("0",)),  # the other way
        (31, "5", ("3",)),
        (40, "4", ()),
    ],
)
def test_a_picture_contradicts_its_tone_beyond_its_range_amid_a_far_one(angle, tone, expected):
    assert contradicted_by(angle, tone, "milk10k", RANGES) == expected


def test_bins_are_degrees():
    assert [angle_bin(a) for a in (-90, -89.01, -0.5, 0, 0.99, 89.5, 90)] == [0, 0, 89, 90, 90, 179, 179]
    assert angle_bin(90) == ANGLE_BINS - 1
    for wrong in (90.1, -91, float("nan")):
        with pytest.raises(ValueError, match="angles are from"):
            angle_bin(wrong)

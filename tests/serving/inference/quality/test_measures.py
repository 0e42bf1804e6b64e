"""The measures against loops over single pixels, and against pictures whose numbers are known by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.inference.quality.measures import WINDOW, blur_effect, measure


def blur_by_loops(grey: np.ndarray) -> float:
    """B as it is written: one pixel after the other, along both directions."""
    found = []
    for picture in (grey, grey.T):
        height, width = picture.shape
        half = WINDOW // 2
        variation = kept = 0.0
        for x in range(width):
            means = {
                y: sum(float(picture[y + step, x]) for step in range(-half, half + 1)) / WINDOW
                for y in range(half, height - half)
            }
            for y in range(half + 1, height - half):
                sharp = abs(float(picture[y, x]) - float(picture[y - 1, x]))
                variation += sharp
                kept += max(0.0, sharp - abs(means[y] - means[y - 1]))
        found.append(1 - kept / variation if variation else 0.0)
    return max(found)


@given(seed=st.integers(0, 10_000), height=st.integers(7, 14), width=st.integers(7, 14))
@settings(max_examples=25)
def test_blur_is_what_is_written(seed, height, width):
    grey = np.random.default_rng(seed).uniform(0, 255, (height, width)).astype(np.float32)
    assert blur_effect(grey) == pytest.approx(blur_by_loops(grey), abs=1e-5)


def test_blur_of_pictures_known_by_hand():
    assert blur_effect(np.full((20, 20), 7, np.float32)) == 0
    # A ramp is itself after a moving average, so nothing is lost.
    assert blur_effect(np.outer(np.arange(20), np.ones(20)).astype(np.float32)) == pytest.approx(1)
    # One edge of 5: the average rises by 1 over five steps, of which one is at the edge: 4 of 5 are lost.
    edge = np.zeros((20, 20), np.float32)
    edge[10:] = 5
    assert blur_effect(edge) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("size", "side"), [(64, 64), (100, 64), (127, 64), (128, 128), (224, 128), (600, 128)]
)
def test_the_side_that_blur_is_measured_on(lesion, size, side):
    assert measure(lesion(size=size)).side == side


def test_a_small_picture_tells_nothing(lesion):
    assert measure(lesion(size=63)) is None
    assert measure(lesion(size=8)) is None


@pytest.mark.parametrize("size", [64, 128, 224])
def test_two_halves_by_hand(size):
    pixels = np.zeros((size, size, 3), np.uint8)
    pixels[:, : size // 2] = (200, 180, 10)
    pixels[:, size // 2 :] = (150, 90, 40)
    found = measure(pixels)
    assert found.brightest == 200
    assert found.burnt == 0
    assert found.contrast == pytest.approx(0.75)  # the blue: (40 - 10) / 40


@pytest.mark.parametrize(
    ("colour", "burnt"),
    [
        ((255, 255, 0), 1),
        ((255, 0, 253), 1),
        ((255, 252, 252), 0),
        ((252, 252, 252), 0),
        ((255, 255, 255), 1),
    ],
)
def test_colour_is_lost_where_two_channels_are_at_their_ceiling(colour, burnt):
    assert measure(np.full((64, 64, 3), colour, np.uint8)).burnt == burnt


def test_what_is_outside_the_disc_has_no_part(lesion):
    """A dermoscope's black rim, or a lamp in a corner."""
    plain = lesion()
    across = (np.arange(128) + 0.5) / 128 * 2 - 1
    outside = np.hypot(across[:, None], across) > 0.85
    for colour in (0, 255):
        rimmed = plain.copy()
        rimmed[outside] = colour
        found, expected = measure(rimmed), measure(plain)
        assert (found.brightest, found.burnt, found.contrast) == (
            expected.brightest,
            expected.burnt,
            expected.contrast,
        )

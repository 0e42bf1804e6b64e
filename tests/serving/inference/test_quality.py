"""Measures against loops and numbers by hand, rules at their very thresholds, whole pictures with a fault."""

import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.inference.quality import (
    BLUR,
    BRIGHTEST,
    BURNT,
    CONTRAST,
    WINDOW,
    Measures,
    assess_quality,
    blur_effect,
    measure,
    measured_issues,
)

GOOD = Measures(side=128, blur=0.4, brightest=200, burnt=0, contrast=0.5)
RULE = PictureRule(size=128)


def lesion(skin=(196, 150, 122), size=128, shine=1.25):
    """A sharp lesion in the middle of skin with some texture, as a model sees it."""
    drawn = np.random.default_rng(0)
    across = (np.arange(size) + 0.5) / size * 2 - 1
    away = np.hypot(across[:, None], across)
    level = np.where(away < 0.35, 0.5, 1.0) * drawn.normal(1, 0.04, (size, size))
    level[::16, ::16] *= shine  # a few reflections
    return np.clip(level[..., None] * np.array(skin), 0, 255).round().astype(np.uint8)


def issues(pixels):
    size = len(pixels)
    quality = assess_quality(size, size, PictureRule(size=size), pixels)
    assert quality.acceptable == (not any(issue.bad for issue in quality.issues))
    return [(issue.code, issue.bad) for issue in quality.issues]


def stops(pixels, number):
    """2^number times the light, by the exact curve of sRGB."""
    level = pixels / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    lit = np.clip(linear * 2.0**number, 0, 1)
    shown = np.where(lit <= 0.0031308, lit * 12.92, 1.055 * lit ** (1 / 2.4) - 0.055)
    return (255 * shown).round().astype(np.uint8)


@pytest.mark.parametrize(
    ("name", "code", "threshold", "below"),
    [
        ("brightest", "too-dark", BRIGHTEST, True),
        ("burnt", "too-bright", BURNT, False),
        ("contrast", "nothing-to-see", CONTRAST, True),
        ("blur", "blurred", BLUR[128], False),
    ],
)
def test_an_issue_begins_past_the_first_threshold_and_is_bad_past_the_second(name, code, threshold, below):
    past = -1e-6 if below else 1e-6
    assert list(measured_issues(GOOD)) == []
    assert list(measured_issues(replace(GOOD, **{name: threshold.issue}))) == []
    (mild,) = measured_issues(replace(GOOD, **{name: threshold.issue + past}))
    assert (mild.code, mild.bad) == (code, False)
    assert [one.bad for one in measured_issues(replace(GOOD, **{name: threshold.bad}))] == [False]
    (bad,) = measured_issues(replace(GOOD, **{name: threshold.bad + past}))
    assert (bad.code, bad.bad) == (code, True)
    assert bad.text != mild.text
    for issue in (mild, bad):
        assert not {"{", "}"} & set(issue.text)
        found, advice = issue.text.split(". ", 1)
        assert found.split()[0] in ("The", "Nothing", "Hardly")
        assert advice.split()[0] in ("Take", "Put", "Wipe")
        assert advice.endswith(".")
        assert advice.count(".") == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda pixels: stops(pixels, -5), "too-dark"),
        (lambda pixels: stops(pixels, 4), "too-bright"),
        (lambda pixels: np.full_like(pixels, 140), "nothing-to-see"),
        (lambda pixels: np.zeros_like(pixels), "too-dark"),
        (lambda pixels: np.full_like(pixels, 255), "too-bright"),
        (
            lambda pixels: np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(5))),
            "blurred",
        ),
    ],
)
def test_a_known_fault_is_found_and_is_the_only_one(change, code):
    assert issues(change(lesion())) == [(code, True)]


def test_dark_skin_is_not_a_dark_picture():
    """Both are as dark on the whole; only in one of them the light is missing."""
    dark_skin = lesion(skin=(82, 52, 38), shine=1.9)
    underexposed = stops(lesion(skin=(214, 176, 156), shine=1.1), -3.5)
    assert underexposed.mean() == pytest.approx(dark_skin.mean(), rel=0.1)
    assert issues(dark_skin) == []
    assert [code for code, _ in issues(underexposed)] == ["too-dark"]


def test_a_picture_that_was_blown_up_is_not_asked_anything_else():
    quality = assess_quality(100, 300, RULE, np.zeros((128, 128, 3), np.uint8))
    assert [issue.code for issue in quality.issues] == ["too-small"]
    assert "100 x 300" in quality.issues[0].text
    assert "128 x 128" in quality.issues[0].text
    assert not quality.acceptable


@pytest.mark.parametrize("size", [8, 128])
def test_colours_that_are_not_known_are_an_issue_and_no_reason_to_take_another(size):
    quality = assess_quality(size, size, PictureRule(size=size), lesion(size=size), "it is broken")
    assert [(issue.code, issue.bad) for issue in quality.issues] == [("colours-unknown", False)]
    assert "are not known: it is broken. They were taken as sRGB" in quality.issues[0].text
    small = assess_quality(4, 4, PictureRule(size=size), lesion(size=size), "it is broken")
    assert [issue.code for issue in small.issues] == ["too-small", "colours-unknown"]


@pytest.mark.real
def test_real_pictures_of_dark_skin_are_not_called_dark():
    folder = os.environ.get("DERMFED_DATA")
    archive = Path(folder or ".") / "milk10k" / "images_200x150.zip"
    if not folder or not archive.is_file():
        pytest.skip("DERMFED_DATA names no folder with milk10k/*.zip")
    from clients.data.adapters.table import make_adapter
    from clients.data.picture_files import PictureReader, locate

    manifest = make_adapter("milk10k", {}).manifest(archive.parent)
    rows = [row for row in manifest.rows if row.skin_tone in ("0", "1")]
    assert len(rows) == 180
    found = []
    with PictureReader() as reader:
        for row in rows:
            content = reader.read(locate(row.image, manifest.folder))
            width, height = Image.open(io.BytesIO(content)).size
            quality = assess_quality(width, height, RULE, decode_picture(content, RULE))
            assert quality.acceptable, quality
            found += [issue.code for issue in quality.issues if issue.code == "too-dark"]
    assert len(found) <= 1  # one in a hundred


def blur_by_loops(grey):
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
    ("size", "side"),
    [(8, None), (63, None), (64, 64), (100, 64), (127, 64), (128, 128), (224, 128), (600, 128)],
)
def test_the_side_that_blur_is_measured_on(size, side):
    found = measure(lesion(size=size))
    assert (found and found.side) == side


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


@pytest.mark.parametrize("colour", [0, 255], ids=["a dermoscope's black rim", "a lamp in a corner"])
def test_what_is_outside_the_disc_has_no_part(colour):
    plain, rimmed = lesion(), lesion()
    across = (np.arange(128) + 0.5) / 128 * 2 - 1
    rimmed[np.hypot(across[:, None], across) > 0.85] = colour
    assert replace(measure(rimmed), blur=0) == replace(measure(plain), blur=0)

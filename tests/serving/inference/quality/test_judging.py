"""The rules on measures at their very thresholds, and on whole pictures with a known fault."""

import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from registry.bundle.pictures.rule import PictureRule, decode_picture
from serving.inference.quality import assess_quality
from serving.inference.quality.measures import Measures
from serving.inference.quality.rules import BLUR, BRIGHTEST, BURNT, CONTRAST, blurred, light, nothing_to_see

GOOD = Measures(side=128, blur=0.4, brightest=200, burnt=0, contrast=0.5)
RULE = PictureRule(size=128)


def issues(pixels: np.ndarray) -> list[tuple[str, bool]]:
    size = len(pixels)
    quality = assess_quality(size, size, PictureRule(size=size), pixels)
    assert quality.acceptable == (not any(issue.bad for issue in quality.issues))
    return [(issue.code, issue.bad) for issue in quality.issues]


def stops(pixels: np.ndarray, number: float) -> np.ndarray:
    """2^number times the light, by the exact curve of sRGB."""
    level = pixels / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    lit = np.clip(linear * 2.0**number, 0, 1)
    shown = np.where(lit <= 0.0031308, lit * 12.92, 1.055 * lit ** (1 / 2.4) - 0.055)
    return (255 * shown).round().astype(np.uint8)


@pytest.mark.parametrize(
    ("rule", "name", "code", "threshold", "below"),
    [
        (light, "brightest", "too-dark", BRIGHTEST, True),
        (light, "burnt", "too-bright", BURNT, False),
        (nothing_to_see, "contrast", "nothing-to-see", CONTRAST, True),
        (blurred, "blur", "blurred", BLUR[128], False),
    ],
)
def test_an_issue_begins_past_the_first_threshold_and_is_bad_past_the_second(
    rule, name, code, threshold, below
):
    past = -1e-6 if below else 1e-6
    assert rule(GOOD) is None
    assert rule(replace(GOOD, **{name: threshold.issue})) is None
    mild = rule(replace(GOOD, **{name: threshold.issue + past}))
    assert (mild.code, mild.bad) == (code, False)
    assert not rule(replace(GOOD, **{name: threshold.bad})).bad
    bad = rule(replace(GOOD, **{name: threshold.bad + past}))
    assert (bad.code, bad.bad) == (code, True)
    assert bad.text != mild.text
    for issue in (mild, bad):
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
def test_a_known_fault_is_found_and_is_the_only_one(lesion, change, code):
    assert issues(change(lesion())) == [(code, True)]


def test_dark_skin_is_not_a_dark_picture(lesion):
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
def test_colours_that_are_not_known_are_an_issue_and_no_reason_to_take_another(lesion, size):
    quality = assess_quality(size, size, PictureRule(size=size), lesion(size=size), "it is broken")
    assert [(issue.code, issue.bad) for issue in quality.issues] == [("colours-unknown", False)]
    assert "cannot be used: it is broken. Its colours were taken as sRGB" in quality.issues[0].text
    small = assess_quality(4, 4, PictureRule(size=size), lesion(size=size), "it is broken")
    assert [issue.code for issue in small.issues] == ["too-small", "colours-unknown"]


@pytest.mark.real
def test_real_pictures_of_dark_skin_are_not_called_dark():
    folder = os.environ.get("DERMFED_DATA")
    archive = Path(folder or ".") / "milk10k" / "images_200x150.zip"
    if not folder or not archive.is_file():
        pytest.skip("DERMFED_DATA names no folder with milk10k/*.zip")
    from clients.data.adapters.table import make_adapter
    from clients.data.pictures.files import PictureReader, locate

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

"""JPEGs that are whole, and such that only look so: with bytes missing, and an end mark behind them."""

import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin
from pydicom import uid

from registry.bundle.errors import TruncatedPicture
from registry.bundle.pictures.jpeg import load_jpeg
from registry.bundle.pictures.rule import PictureRule, decode_picture
from tests.dicom_files import dicom_file, saved

END = b"\xff\xd9"
RULES = (PictureRule(size=16), PictureRule(size=16, draft=False))


def drawn(width: int = 120, height: int = 90) -> Image.Image:
    coarse = np.random.default_rng(3).integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


KINDS = {
    "baseline": saved(drawn(), "JPEG"),
    "without subsampling": saved(drawn(), "JPEG", subsampling=0, quality=97),
    "progressive": saved(drawn(), "JPEG", progressive=True),
    "restarts": saved(drawn(), "JPEG", restart_marker_blocks=3),
    "progressive, restarts": saved(drawn(), "JPEG", progressive=True, restart_marker_rows=1),
    "grey": saved(drawn().convert("L"), "JPEG"),
    "grey, progressive": saved(drawn().convert("L"), "JPEG", progressive=True),
    "inks": saved(drawn().convert("CMYK"), "JPEG"),
}


def pixels_from(jpeg: bytes) -> int:
    """Where the compressed data of the first scan begins."""
    at = jpeg.index(b"\xff\xda")
    return at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1, 2, 4, 8])
def test_a_whole_jpeg_has_the_pixels_that_pillow_gives_it(kind, scale):
    opened, other = (JpegImagePlugin.JpegImageFile(io.BytesIO(KINDS[kind])) for _ in range(2))
    for image in (opened, other):
        if scale > 1:
            image.draft("RGB", (image.width // scale, image.height // scale))
    found = load_jpeg(opened)
    other.load()
    found = found.convert("RGB") if found.mode == "RGBX" else found
    assert found.mode == other.mode
    np.testing.assert_array_equal(np.asarray(found), np.asarray(other))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_a_jpeg_that_was_cut_is_refused_with_an_end_mark_too(kind, rule):
    jpeg = KINDS[kind]
    begin = pixels_from(jpeg)
    for share in (0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97):
        cut = jpeg[: begin + int(share * (len(jpeg) - 2 - begin))]
        with pytest.raises(TruncatedPicture, match="send the whole file again"):
            decode_picture(cut + END, rule)
        with pytest.raises(TruncatedPicture, match="send the whole file again"):
            decode_picture(cut, rule)


def test_a_jpeg_that_ends_between_two_of_its_scans_is_refused():
    jpeg = KINDS["progressive"]
    scans = [found.start() for found in re.finditer(b"\xff\xda", jpeg)]
    tables = [jpeg.rfind(b"\xff\xc4", 0, scan) for scan in scans]
    cuts = {max(table, before) for table, before in zip(tables[1:], scans, strict=False) if table > before}
    assert len(cuts) > 4
    for cut in cuts:
        with pytest.raises(TruncatedPicture, match="scans are missing"):
            decode_picture(jpeg[:cut] + END, RULES[0])


def test_a_jpeg_whose_colours_are_in_scans_of_their_own_needs_each():
    """A scan of each component, as some cameras write them: made of three grey pictures."""
    grey = saved(drawn(64, 64).convert("L"), "JPEG")
    frame, scan = grey.index(b"\xff\xc0"), grey.index(b"\xff\xda")
    size = grey[frame + 5 : frame + 9]
    colours = b"\xff\xc0\x00\x11\x08" + size + b"\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"
    head = grey[:frame] + colours + grey[frame + 13 : scan]
    data = grey[pixels_from(grey) : -2]
    scans = [b"\xff\xda\x00\x08\x01" + bytes([name, 0, 0, 63, 0]) + data for name in (1, 2, 3)]
    assert decode_picture(head + b"".join(scans) + END, RULES[0]).shape == (16, 16, 3)
    for fewer in (1, 2):
        with pytest.raises(TruncatedPicture, match="scans are missing"):
            decode_picture(head + b"".join(scans[:fewer]) + END, RULES[0])


@pytest.mark.parametrize("rule", RULES)
def test_a_jpeg_in_a_dicom_file_is_refused_alike(rule):
    jpeg = saved(drawn(64, 64), "JPEG")
    whole = dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(64, 64))
    assert decode_picture(whole, rule).shape == (16, 16, 3)
    cut = jpeg[: pixels_from(jpeg) + 100] + END
    with pytest.raises(TruncatedPicture, match="send the whole file again"):
        decode_picture(dicom_file(cut, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(64, 64)), rule)


@pytest.mark.parametrize("kind", ["baseline", "progressive"])
@pytest.mark.parametrize("padding", [b"\0" * 5, b"\xff" * 5, bytes(range(1, 200))])
def test_bytes_that_a_camera_puts_before_the_end_mark_are_no_loss(kind, padding):
    jpeg = KINDS[kind]
    expected = decode_picture(jpeg, RULES[0])
    np.testing.assert_array_equal(decode_picture(jpeg[:-2] + padding + END, RULES[0]), expected)
    np.testing.assert_array_equal(decode_picture(jpeg + padding, RULES[0]), expected)


@pytest.mark.real
def test_real_pictures_are_whole_and_no_longer_where_they_were_cut():
    folder = os.environ.get("DERMFED_DATA")
    archives = sorted(Path(folder).glob("*/images_*.zip")) if folder else []
    if not archives:
        pytest.skip("DERMFED_DATA names no folder with */images_*.zip")
    random, seen = np.random.default_rng(0), 0
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith((".jpg", ".jpeg"))]
            for name in names[:: max(1, len(names) // 200)]:
                jpeg = archive.read(name)
                decode_picture(jpeg, RULES[0])
                begin = pixels_from(jpeg)
                with pytest.raises(TruncatedPicture):
                    decode_picture(jpeg[: random.integers(begin, len(jpeg) - 6)] + END, RULES[0])
                seen += 1
    assert seen >= 500


PIXELS = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 48, 3), dtype=np.uint8))
RULE = PictureRule(size=8)


def test_a_film_behind_a_photograph_is_no_scan():
    """Its bytes hold what looks like scans: about one in every 65,536."""
    film = bytes(2) + b"\xff\xda\x00\x02" * 500 + np.random.default_rng(2).bytes(10_000)
    for options in ({}, {"progressive": True}):
        whole = saved(PIXELS, "JPEG", **options)
        assert (decode_picture(whole + film, RULE) == decode_picture(whole, RULE)).all()

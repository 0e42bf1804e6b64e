"""What a picture is thought to take: more for what takes more, and never less memory than it does take."""

import io

import pytest
from PIL import Image

from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule
from serving.decoding.lane import Lane
from serving.decoding.need import picture_need, webp_need, webp_size
from serving.decoding.wire import Pixels
from tests.serving.hostile.costly import memory_bomb, scan_bomb
from tests.serving.hostile.piece import encoded

RULE = PictureRule(size=64)
SIDE = 3000
FLAT = Image.new("RGB", (SIDE, SIDE), (200, 90, 30))


def deep(side: int) -> Image.Image:
    return Image.new("I;16", (side, side), 900)


PICTURES = {
    "JPEG": encoded(FLAT, "JPEG"),
    "progressive JPEG": encoded(FLAT, "JPEG", progressive=True, subsampling=0),
    "CMYK JPEG": encoded(FLAT.convert("CMYK"), "JPEG", progressive=True),
    "PNG": encoded(FLAT, "PNG"),
    "transparent PNG": encoded(FLAT.convert("RGBA"), "PNG"),
    "palette PNG": encoded(FLAT.convert("P"), "PNG", transparency=0),
    "deep PNG": encoded(deep(SIDE), "PNG"),
    "WebP": encoded(FLAT, "WEBP"),
    "lossless WebP": memory_bomb(SIDE),
    "transparent WebP": encoded(Image.new("RGBA", (SIDE, SIDE), (200, 90, 30, 99)), "WEBP", lossless=True),
}


@pytest.mark.parametrize("draft", [True, False])
@pytest.mark.parametrize("name", PICTURES)
def test_it_is_decoded_within_what_it_is_thought_to_take(one_template, name, draft):
    content, rule = PICTURES[name], PictureRule(size=64, draft=draft)
    need = picture_need(open_picture(content), rule)
    lane = Lane(one_template, 1, need.memory, 60.0)
    answer, _ = lane.ask(content, rule, 60.0)
    lane.close()
    assert answer == Pixels(width=SIDE, height=SIDE)


def test_scans_and_full_size_take_longer():
    few, many = (picture_need(open_picture(scan_bomb(scans, 1000)), RULE) for scans in (0, 80))
    assert many.seconds > 3 * few.seconds
    content = PICTURES["JPEG"]
    scaled, full = (
        picture_need(open_picture(content), PictureRule(size=64, draft=draft)) for draft in (True, False)
    )
    assert full.seconds > scaled.seconds
    assert full.memory > scaled.memory


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": b"Exif\0\0"}])
def test_the_size_of_a_webp_is_read_before_it_is_opened(options):
    content = encoded(Image.new("RGB", (300, 20), (200, 90, 30)), "WEBP", **options)
    assert webp_size(content) == (300, 20) == Image.open(io.BytesIO(content)).size
    assert webp_size(content[:25]) == webp_size(b"RIFF    WEBPabcd" + bytes(20)) == (0, 0)
    assert webp_need(10**6).memory < webp_need(10**7).memory

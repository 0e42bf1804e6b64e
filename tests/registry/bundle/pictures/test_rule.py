import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from registry.bundle.errors import (
    NotAPicture,
    PictureError,
    PictureTooLarge,
    TruncatedPicture,
    UnsupportedPicture,
)
from registry.bundle.pictures.open_file import open_picture
from registry.bundle.pictures.rule import PictureRule, decode_opened, decode_picture, transparent_share

RULE = PictureRule(size=16)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photograph(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours, so that a lossy codec keeps them."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("size", [(16, 16), (40, 23), (23, 40), (7, 5)])
def test_every_format_gives_a_square_of_rgb(kind, size):
    pixels = decode_picture(encoded(photograph(*size), kind), RULE)
    assert pixels.shape == (16, 16, 3)
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("draft", [True, False])
def test_scaling_down_averages_rather_than_picks(draft):
    """A fine chequerboard becomes grey: antialiasing, with the decoder's help or without."""
    board = (np.indices((256, 256)).sum(axis=0) // 8 % 2 * 255).astype(np.uint8)
    content = encoded(Image.fromarray(board).convert("RGB"), "JPEG", quality=95)
    pixels = decode_picture(content, PictureRule(size=8, draft=draft))
    assert np.abs(pixels[1:-1, 1:-1].astype(int) - 128).max() < 12


def test_draft_decodes_no_smaller_than_asked():
    """400 px to 210 px cannot be halved; 400 px to 200 px can, and then needs no resizing."""
    content = encoded(photograph(400, 400), "JPEG")
    same = [decode_picture(content, PictureRule(size=210, draft=draft)) for draft in (True, False)]
    np.testing.assert_array_equal(same[0], same[1])
    halved = Image.open(io.BytesIO(content))
    halved.draft("RGB", (200, 200))
    np.testing.assert_array_equal(decode_picture(content, PictureRule(size=200)), np.asarray(halved))


def test_squash_keeps_the_sides_and_crop_cuts_them():
    image = Image.new("RGB", (48, 16), (0, 255, 0))
    image.paste((255, 0, 0), (0, 0, 16, 16))
    content = encoded(image, "PNG")
    squashed = decode_picture(content, RULE)
    assert squashed[:, 0].tolist() == [[255, 0, 0]] * 16
    cropped = decode_picture(content, PictureRule(size=16, fit="crop"))
    assert (cropped == (0, 255, 0)).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "AVIF"])
def test_the_orientation_is_applied_where_browsers_apply_it(orientation, kind):
    """Against the turn that EXIF's own definition gives: where row 0 and column 0 of the file belong."""
    upright = np.asarray(photograph(16, 16))
    stored = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: a.transpose(1, 0, 2)[::-1],
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    }[orientation](upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {
        "JPEG": {"quality": 100, "subsampling": 0},
        "PNG": {},
        "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    }[kind]
    content = encoded(Image.fromarray(np.ascontiguousarray(stored)), kind, exif=exif, **options)
    assert np.abs(decode_picture(content, RULE).astype(int) - upright).max() <= 4


@pytest.mark.filterwarnings("ignore:.*EXIF.*:UserWarning")
def test_exif_that_cannot_be_read_is_no_reason_to_refuse():
    content = encoded(photograph(16, 16), "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff" + b"x" * 20)
    assert decode_picture(content, RULE).shape == (16, 16, 3)


def test_transparency_is_laid_over_white():
    clear = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    half = Image.new("RGBA", (16, 16), (255, 0, 0, 128))
    palette = Image.new("P", (16, 16), 0)
    palette.putpalette([0, 0, 255] * 256)
    assert (decode_picture(encoded(clear, "PNG"), RULE) == 255).all()
    assert (decode_picture(encoded(clear, "WEBP", lossless=True), RULE) == 255).all()
    assert np.abs(decode_picture(encoded(half, "PNG"), RULE).astype(int) - (255, 127, 127)).max() <= 1
    assert (decode_picture(encoded(palette, "PNG", transparency=0), RULE) == 255).all()
    assert (decode_picture(encoded(palette, "PNG"), RULE) == (0, 0, 255)).all()


STRIPE = (0, 0, 10, 32)


def with_stripe(mode: str) -> tuple[Image.Image, dict[str, Any]]:
    """A photograph whose left quarter hides another colour, and how it is saved to be transparent there."""
    image = photograph(40, 32).convert("RGB" if mode in ("RGB", "RGBA", "P") else "L")
    image.paste(hidden := 7 if image.mode == "L" else (200, 20, 20), STRIPE)
    if mode in ("RGBA", "LA"):
        alpha = Image.new("L", image.size, 255)
        alpha.paste(0, STRIPE)
        image.putalpha(alpha)
        return image, {"exact": True, "lossless": True}
    if mode == "I;16":
        return Image.fromarray(np.asarray(image).astype(np.uint16) * 256), {"transparency": 7 * 256}
    image = image.quantize(64) if mode == "P" else image
    return image, {"transparency": image.getpixel((0, 0)) if mode == "P" else hidden}


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB", "L", "I;16", "RGBA in WebP"])
def test_a_transparent_stripe_is_to_a_model_what_white_paper_is(mode):
    """Attack: what is hidden below would make an answer surer. Control: without the stripe it differs."""
    image, options = with_stripe(mode[:4])
    seen = decode_picture(encoded(image, "WEBP" if "WebP" in mode else "PNG", **options), RULE)
    opaque = (with_stripe("L")[0] if mode == "I;16" else image).convert("RGB")
    assert (seen != decode_picture(encoded(opaque, "PNG"), RULE)).any()
    opaque.paste((255, 255, 255), STRIPE)
    assert (seen == decode_picture(encoded(opaque, "PNG"), RULE)).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB", "L", "I;16", "RGBA in WebP"])
def test_the_share_of_a_picture_that_is_transparent_is_found(mode):
    image, options = with_stripe(mode[:4])
    opened = open_picture(encoded(image, "WEBP" if "WebP" in mode else "PNG", **options))
    decode_opened(opened, RULE)
    assert transparent_share(opened) == 0.25


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_that_hides_nothing_is_not_transparent(kind):
    image = photograph(40, 32) if kind == "JPEG" else photograph(40, 32).convert("RGBA")
    opened = open_picture(encoded(image, kind))
    decode_opened(opened, RULE)
    assert transparent_share(opened) == 0


def test_the_transparent_colour_of_a_picture_without_alpha_is_white():
    image = Image.new("RGB", (16, 16), (0, 0, 0))
    assert (decode_picture(encoded(image, "PNG", transparency=(0, 0, 0)), RULE) == 255).all()


def test_greys_of_one_eight_and_sixteen_bits():
    bit = Image.new("1", (16, 16), 1)
    grey = Image.new("L", (16, 16), 90)
    deep = Image.fromarray(np.full((16, 16), 90 * 257, dtype=np.uint16))
    faint = Image.new("LA", (16, 16), (90, 0))
    assert (decode_picture(encoded(bit, "PNG"), RULE) == 255).all()
    assert (decode_picture(encoded(grey, "PNG"), RULE) == 90).all()
    assert (decode_picture(encoded(grey, "JPEG"), RULE) == 90).all()
    assert (decode_picture(encoded(deep, "PNG"), RULE) == 90).all()
    assert (decode_picture(encoded(faint, "PNG"), RULE) == 255).all()


def test_cmyk_becomes_rgb():
    image = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    pixels = decode_picture(encoded(image, "JPEG", quality=100), RULE).astype(int)
    assert np.abs(pixels - (255, 0, 0)).max() <= 3


def test_the_pictures_a_phone_appends_to_a_jpeg_are_ignored():
    first, second = photograph(32, 32, 1), photograph(32, 32, 2)
    content = encoded(first, "MPO", save_all=True, append_images=[second])
    expected = decode_picture(encoded(first, "JPEG"), RULE).astype(int)
    assert np.abs(decode_picture(content, RULE) - expected).max() <= 2


def test_an_enormous_picture_is_refused_before_anything_is_decoded():
    content = png_header(30_000, 30_000)
    tracemalloc.start()
    with pytest.raises(PictureTooLarge, match=r"30000 x 30000 = 900,000,000 pixels; at most 50,000,000"):
        decode_picture(content, RULE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # bytes


def test_an_enormous_webp_is_refused_too():
    exif = Image.Exif()
    exif[0x0112] = 1
    content = bytearray(encoded(photograph(16, 16), "WEBP", exif=exif))
    assert content[12:16] == b"VP8X"
    content[24:30] = b"\xff\x3e\x00\xff\x3e\x00"  # 16,128 pixels on both sides, less one each
    with pytest.raises(PictureTooLarge, match="smaller copy"):
        decode_picture(bytes(content), RULE)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_an_animation_is_refused(kind):
    frames = [photograph(16, 16, seed) for seed in range(2)]
    content = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    with pytest.raises(UnsupportedPicture, match="animated"):
        decode_picture(content, RULE)


NO_PICTURES = ("a film", "what a Mac keeps beside a file", "a web page")


@pytest.mark.parametrize(
    ("content", "name", "advice"),
    [
        (b"\x00\x00\x00\x18ftypmif1", "HEIF of a kind", "`magick in.heic out.jpg`"),
        (b"\x00\x00\x00\x18ftypmp42", "a film", "the one picture"),
        (b"II*\x00\x10\x00\x00\x00CR\x02\x00", r"a camera's raw file \(CR2\)", "develop it"),
        (b"\x00\x00\x00\x18ftypcrx ", r"a camera's raw file \(CR3\)", "develop it"),
        (b"MM\x00*\x00\x00\x00\x08", "TIFF, or a camera's raw file", "`magick in.tif out.jpg`"),
        (b"%PDF-1.7", "PDF", "`pdfimages"),
        (b"\x00\x05\x16\x07\x00\x02", "what a Mac keeps beside a file", "name the picture itself"),
        (b"<!DOCTYPE html><title>Sign in", "a web page", "fetch it again"),
    ],
)
def test_what_else_is_sent_is_named_with_what_to_do(content, name, advice):
    kind = NotAPicture if name in NO_PICTURES else UnsupportedPicture
    with pytest.raises(kind, match=f"is {name}.*, which is not read; JPEG.*{advice}"):
        decode_picture(content + bytes(64), RULE)


@pytest.mark.parametrize("content", [b"", b"hello", b"<svg></svg>", b"RIFF\x04\x00\x00\x00WAVE"])
def test_what_is_no_picture_is_refused(content):
    with pytest.raises(NotAPicture, match="JPEG, PNG, WebP, HEIC, AVIF and DICOM are accepted"):
        decode_picture(content, RULE)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_picture_cut_short_is_refused_as_that(kind, share):
    noise = np.random.default_rng(2).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    content = encoded(Image.fromarray(noise), kind)
    with pytest.raises(TruncatedPicture, match="send the whole file again"):
        decode_picture(content[: int(share * len(content))], RULE)


@pytest.mark.parametrize(
    ("kind", "options"), [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {})]
)
def test_no_beginning_of_a_picture_is_taken_for_it(kind, options):
    content = encoded(photograph(24, 18), kind, **options)
    for length in range(len(content)):
        with pytest.raises(PictureError):
            decode_picture(content[:length], RULE)


@pytest.mark.filterwarnings("ignore")  # Pillow warns of damaged EXIF and goes on
@given(
    kind=st.sampled_from(["JPEG", "PNG", "WEBP"]),
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8
    ),
)
@settings(max_examples=150)
def test_spoilt_bytes_give_a_picture_or_a_picture_error(kind, changes):
    exif = Image.Exif()
    exif[0x0112] = 6
    content = bytearray(encoded(photograph(24, 18), kind, exif=exif))
    for place, value in changes:
        content[int(place * len(content))] = value
    try:
        pixels = decode_picture(bytes(content), PictureRule(size=8, max_pixels=10_000))
    except PictureError:
        return
    assert pixels.shape == (8, 8, 3)


def test_the_pixels_of_a_rule_stay_what_they_are():
    """A change here is a change of `PICTURE_VERSION`: models were trained on these pixels."""
    ramp = np.arange(40 * 30 * 3, dtype=np.uint32).reshape(40, 30, 3) * 7919 % 251
    content = encoded(Image.fromarray(ramp.astype(np.uint8)), "PNG")
    pixels = decode_picture(content, PictureRule(size=8))
    assert zlib.crc32(pixels.tobytes()) == 756756875


@pytest.mark.real
def test_real_pictures_are_decoded_alike_with_and_without_draft():
    """Draft mode changes pixels, but not what is to be seen: a few grey levels on average."""
    folder = os.environ.get("DERMFED_DATA")
    archives = sorted(Path(folder).glob("milk10k/*.zip")) if folder else []
    if not archives:
        pytest.skip("DERMFED_DATA names no folder with milk10k/*.zip")
    with zipfile.ZipFile(archives[0]) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".jpg")]
        assert names
        for name in names[:: max(1, len(names) // 20)]:
            content = archive.read(name)
            fast, slow = (
                decode_picture(content, PictureRule(size=64, draft=draft)) for draft in (True, False)
            )
            assert fast.std() > 1
            assert np.abs(fast.astype(int) - slow).mean() < 6

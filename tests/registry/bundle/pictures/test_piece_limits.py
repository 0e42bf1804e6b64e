"""Pictures of very many pieces, at the bound and one beyond it."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from registry.bundle.errors import DamagedPicture
from registry.bundle.pictures.jpeg import MAX_EXIF, MAX_PARTS, MAX_SCANS, refuse_many_parts
from registry.bundle.pictures.rule import PictureRule, decode_picture

PIXELS = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 48, 3), dtype=np.uint8))
RULE = PictureRule(size=8)


def encoded(form: str, **options: object) -> bytes:
    file = io.BytesIO()
    PIXELS.save(file, form, **options)
    return file.getvalue()


JPEG, PROGRESSIVE, PNG = encoded("JPEG"), encoded("JPEG", progressive=True), encoded("PNG")
EMPTY = struct.pack(">I", 0) + b"abCd" + struct.pack(">I", zlib.crc32(b"abCd"))
EXIF = b"\xff\xe1\x00\x08Exif\0\0"  # a piece that adds nothing


def chunks(png: bytes) -> int:
    """How many chunks a PNG has, counted another way: by taking them off its end."""
    number, rest = 0, png[8:]
    while rest:
        rest = rest[12 + struct.unpack(">I", rest[:4])[0] :]
        number += 1
    return number


def in_front(jpeg: bytes, more: bytes) -> bytes:
    return jpeg[:2] + more + jpeg[2:]


@pytest.mark.parametrize("more", [0, 1])
def test_chunks_of_a_png_are_bounded(more):
    left = MAX_PARTS - chunks(PNG) + more
    for at in (8 + 25, len(PNG) - 12):  # after the header, before the end
        content = PNG[:at] + EMPTY * left + PNG[at:]
        if more:
            with pytest.raises(DamagedPicture, match=f"more chunks than {MAX_PARTS:,}"):
                decode_picture(content, RULE)
        else:
            assert (decode_picture(content, RULE) == decode_picture(PNG, RULE)).all()


def test_what_follows_a_pngs_end_does_not_count():
    assert (decode_picture(PNG + EMPTY * MAX_PARTS, RULE) == decode_picture(PNG, RULE)).all()


@pytest.mark.parametrize(
    "piece", [b"\xff\xe5\x00\x02", b"\xff\xfe\x00\x02", b"\xff", b"\xff\xd8", b"A", b"\xff\x01"]
)
def test_what_stands_before_a_jpegs_pixels_is_bounded(piece):
    comment = b"\xff\xfe\x00\x02"
    refuse_many_parts(in_front(JPEG, comment + piece * (MAX_PARTS - 100)))
    with pytest.raises(DamagedPicture, match="more segments"):
        decode_picture(in_front(JPEG, comment + piece * MAX_PARTS), RULE)


def test_pieces_of_exif_are_bounded():
    whole = decode_picture(JPEG, RULE)
    assert (decode_picture(in_front(JPEG, EXIF * MAX_EXIF), RULE) == whole).all()
    with pytest.raises(DamagedPicture, match=f"more pieces of EXIF than {MAX_EXIF}"):
        decode_picture(in_front(JPEG, EXIF * (MAX_EXIF + 1)), RULE)
    assert (decode_picture(JPEG + EXIF * 500, RULE) == whole).all()  # behind the picture


def scans(jpeg: bytes, number: int) -> bytes:
    """A progressive JPEG with its last scan repeated until there are so many."""
    starts = [at for at in range(len(jpeg)) if jpeg[at : at + 2] == b"\xff\xda"]
    last = jpeg[starts[-1] : -2]
    return jpeg[:-2] + last * (number - len(starts)) + jpeg[-2:]


def test_scans_are_bounded():
    assert PROGRESSIVE.count(b"\xff\xda") > 5
    refuse_many_parts(scans(PROGRESSIVE, MAX_SCANS))
    with pytest.raises(DamagedPicture, match=f"more scans than {MAX_SCANS}"):
        decode_picture(scans(PROGRESSIVE, MAX_SCANS + 1), RULE)


def test_a_film_behind_a_photograph_is_no_scan():
    """Its bytes hold what looks like scans: about one in every 65,536."""
    film = bytes(2) + b"\xff\xda\x00\x02" * 500 + np.random.default_rng(2).bytes(10_000)
    for jpeg in (JPEG, PROGRESSIVE, scans(PROGRESSIVE, MAX_SCANS)):
        refuse_many_parts(jpeg + film)
    assert (decode_picture(JPEG + film, RULE) == decode_picture(JPEG, RULE)).all()


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"\xff\xd8\xff\xe1", b"\x89PNG"]
)
def test_what_ends_at_once_has_few_pieces(content):
    refuse_many_parts(content)
    refuse_many_parts(content + b"\0" * 40)


def commented(jpeg: bytes, text: bytes) -> bytes:
    """The JPEG with a comment before its last scan."""
    at = jpeg.rindex(b"\xff\xda")
    return jpeg[:at] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + jpeg[at:]


def test_scans_behind_what_looks_like_the_end_are_counted():
    for text in (b"\xff\xd9", b"\xff\xd9" * 50, b"\xff", b""):
        refuse_many_parts(scans(commented(PROGRESSIVE, text), MAX_SCANS))
        many = scans(commented(PROGRESSIVE, text), MAX_SCANS + 1)
        with pytest.raises(DamagedPicture, match=f"more scans than {MAX_SCANS}"):
            decode_picture(many, RULE)

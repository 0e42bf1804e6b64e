"""Small files that cost a decoder minutes or gigabytes, though each of their pieces is well formed."""

from PIL import Image

from tests.serving.hostile.piece import encoded, segment

SIDE = 7000
"""Pixels of each side: just under the ceiling of 50 million in all."""


def scan_bomb(scans: int = 2000, side: int = SIDE) -> bytes:
    """A progressive JPEG of one colour whose last scan is there so often.

    A comment before these holds an end mark: a count of scans up to the first end mark is ten.
    """
    sound = encoded(Image.new("RGB", (side, side), (200, 90, 30)), "JPEG", progressive=True, optimize=True)
    last = sound[sound.rindex(b"\xff\xda") : -2]
    return sound[:-2] + segment(0xFE, b"\xff\xd9") + last * scans + b"\xff\xd9"


def dicom_scan_bomb(scans: int = 2000, side: int = SIDE) -> bytes:
    """The same as the picture of a DICOM file."""
    from pydicom import uid

    from tests.dicom_files import dicom_file

    return dicom_file(scan_bomb(scans, side), "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(side, side))


def memory_bomb(side: int = SIDE) -> bytes:
    """A lossless WebP of one colour: some dozen bytes that are decoded to hundreds of megabytes."""
    return encoded(Image.new("RGB", (side, side), (200, 90, 30)), "WEBP", lossless=True)

"""Small pictures of every kind that the service reads, drawn: what a template decodes before it forks."""

import io
import struct
from typing import Any

import numpy as np
from PIL import Image, ImageCms


def samples() -> list[bytes]:
    """Small pictures in every format and mode, whole and cut."""
    colour = Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(20, 20, 3))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    # Colours that have to be converted.
    other = profile.replace(b"rXYZ", b"....").replace(b"bXYZ", b"rXYZ").replace(b"....", b"bXYZ")
    exif = Image.Exif()
    exif[0x0112] = 6
    saved: list[tuple[str, Image.Image, dict[str, Any]]] = [
        ("JPEG", colour, {"exif": exif}),
        ("JPEG", colour, {"progressive": True}),
        ("JPEG", colour.convert("CMYK"), {}),
        ("JPEG", colour, {"icc_profile": profile}),
        ("JPEG", colour, {"icc_profile": other}),
        ("JPEG", colour, {"icc_profile": other[:200]}),
        ("PNG", colour.convert("L"), {"icc_profile": other}),
        ("WEBP", colour, {"icc_profile": other}),
        ("PNG", colour, {"exif": exif}),
        ("PNG", colour.convert("P"), {"transparency": 0}),
        ("PNG", Image.new("I;16", (20, 20), 900), {}),
        ("WEBP", colour, {"exif": exif}),
        ("WEBP", colour.convert("RGBA"), {"lossless": True}),
    ]
    found: list[bytes] = []
    for form, image, options in saved:
        file = io.BytesIO()
        image.save(file, form, **options)
        found.append(file.getvalue())
    # What is cut is refused, and saying why needs code as well.
    found += _dicom()
    return [*found, *(one[: len(one) * 2 // 3] for one in found)]


def _dicom() -> list[bytes]:
    """A photograph in a DICOM file, and one whose kind is unknown: its name is looked up."""

    def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
        value += b"\0" * (len(value) % 2)
        return struct.pack("<HH2sH", group, number, kind, len(value)) + value

    found = []
    for sop in (b"1.2.840.10008.5.1.4.1.1.77.1.4", b"1.2.840.10008.5.1.4.1.1.2"):
        meta = element(2, 0x10, b"UI", b"1.2.840.10008.1.2.1")
        found.append(
            bytes(128)
            + b"DICM"
            + element(2, 0, b"UL", struct.pack("<I", len(meta)))
            + meta
            + element(8, 0x16, b"UI", sop)
            + element(0x28, 2, b"US", b"\3\0")
            + element(0x28, 4, b"CS", b"RGB")
            + element(0x28, 6, b"US", b"\0\0")
            + element(0x28, 0x10, b"US", b"\2\0")
            + element(0x28, 0x11, b"US", b"\2\0")
            + element(0x28, 0x100, b"US", b"\x08\0")
            + element(0x28, 0x101, b"US", b"\x08\0")
            + element(0x28, 0x102, b"US", b"\7\0")
            + element(0x28, 0x103, b"US", b"\0\0")
            + struct.pack("<HH2sHI", 0x7FE0, 0x10, b"OB", 0, 12)
            + bytes(12)
        )
    return found

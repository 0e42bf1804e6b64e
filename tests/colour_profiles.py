"""Colour profiles to test with, written by the layout of ICC.1:2010 from primaries and a tone curve.

A profile here is what cameras and phones embed: a matrix and one curve for each channel. `profile` puts any
tags together, so that a test may break one thing at a time.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

SRGB_CURVE: Final = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
D50: Final = (0.9642, 1.0, 0.8249)

# The columns of the matrix to XYZ under D50: what red, green and blue are.
DISPLAY_P3: Final = ((0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))
ADOBE_RGB: Final = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
SRGB: Final = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.7141))


def fixed(*numbers: float) -> bytes:
    """Numbers as s15Fixed16."""
    return b"".join(struct.pack(">i", round(number * 65536)) for number in numbers)


def xyz(*numbers: float) -> bytes:
    """The tag type of one colour."""
    return b"XYZ \0\0\0\0" + fixed(*numbers)


def gamma_curve(gamma: float) -> bytes:
    """The tag type of a power."""
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"


def parametric(*numbers: float) -> bytes:
    """The tag type of a power with a straight beginning."""
    return b"para\0\0\0\0" + struct.pack(">HH", 3, 0) + fixed(*numbers)


def text(tag_text: str) -> bytes:
    """The tag type of a text in one language."""
    coded = tag_text.encode("utf-16-be")
    return b"mluc\0\0\0\0" + struct.pack(">II2s2sII", 1, 12, b"en", b"US", len(coded), 28) + coded


def profile(
    tags: Mapping[bytes, bytes],
    *,
    space: bytes = b"RGB ",
    kind: bytes = b"mntr",
    connection: bytes = b"XYZ ",
    version: int = 0x04000000,
) -> bytes:
    """A profile of these tags."""
    at = 128 + 4 + 12 * len(tags)
    table, data = struct.pack(">I", len(tags)), b""
    for name, value in tags.items():
        padded = value + bytes(-len(value) % 4)
        table += struct.pack(">4sII", name, at + len(data), len(value))
        data += padded
    head = struct.pack(">I4xI4s4s4s", at + len(data), version, kind, space, connection)
    head += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(24) + b"\0\0\0\0" + fixed(*D50)
    return head.ljust(128, b"\0") + table + data


def matrix_tags(
    columns: Sequence[Sequence[float]], curve: bytes, name: str = "Made for tests"
) -> dict[bytes, bytes]:
    """The tags of a profile of a matrix and one curve."""
    names = (b"rXYZ", b"gXYZ", b"bXYZ")
    colours = {name: xyz(*column) for name, column in zip(names, columns, strict=True)}
    curves = dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    return {b"desc": text(name), b"cprt": text("none"), b"wtpt": xyz(*D50), **colours, **curves}


def display_p3() -> bytes:
    """What phones embed."""
    return profile(matrix_tags(DISPLAY_P3, parametric(*SRGB_CURVE), "Display P3"))


def adobe_rgb() -> bytes:
    """What cameras may be set to."""
    return profile(matrix_tags(ADOBE_RGB, gamma_curve(563 / 256), "Adobe RGB (1998)"))


def srgb() -> bytes:
    """sRGB, as many programs embed it."""
    return profile(matrix_tags(SRGB, parametric(*SRGB_CURVE), "sRGB"))


def grey(gamma: float) -> bytes:
    """A grey profile of a power."""
    tags = {b"desc": text("grey"), b"cprt": text("none"), b"wtpt": xyz(*D50), b"kTRC": gamma_curve(gamma)}
    return profile(tags, space=b"GRAY")


def cmyk() -> bytes:
    """A printer's profile: its table says that inks take light away, each a little less than all of it."""
    inks = np.array(np.meshgrid(*[[0, 1]] * 4, indexing="ij")).reshape(4, -1).T
    linear = (1 - 0.9 * inks[:, :3]) * (1 - 0.95 * inks[:, 3:])
    white = np.array(D50)
    ratio = linear @ np.array(SRGB) / white
    root = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    lab = np.stack(
        [116 * root[:, 1] - 16, 500 * (root[:, 0] - root[:, 1]), 200 * (root[:, 1] - root[:, 2])], axis=1
    )
    encoded = np.stack([lab[:, 0] * 255 / 100, lab[:, 1] + 128, lab[:, 2] + 128], axis=1)
    table = np.clip(np.round(encoded), 0, 255).astype(np.uint8).tobytes()
    straight = bytes(range(256))
    lut = b"mft1\0\0\0\0" + bytes([4, 3, 2, 0]) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    lut += straight * 4 + table + straight * 3
    tags = {b"desc": text("inks"), b"cprt": text("none"), b"wtpt": xyz(*D50), b"A2B0": lut}
    return profile(tags, space=b"CMYK", kind=b"prtr", connection=b"Lab ", version=0x02400000)


def table(channels: int, side: int) -> bytes:
    """The tag type of a table of eight bits, of `side` colours along each of its sides, drawn at random."""
    colours = np.random.default_rng(0).integers(0, 256, 3 * side**channels, dtype=np.uint8).tobytes()
    head = b"mft1\0\0\0\0" + bytes([channels, 3, side, 0]) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    return head + bytes(range(256)) * channels + colours + bytes(range(256)) * 3


def steps(side: int) -> bytes:
    """The tag type of curves, a table, curves, a matrix and curves, one after the other."""
    curves = parametric(*SRGB_CURVE) * 3
    colours = np.random.default_rng(0).integers(0, 256, 3 * side**3, dtype=np.uint8).tobytes()
    grid = bytes([side] * 3).ljust(16, b"\0") + b"\1\0\0\0" + colours
    grid += bytes(-len(grid) % 4)
    matrix = fixed(1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0)
    at = [32, 32 + len(curves), 32 + len(curves) + len(matrix)]
    places = (at[0], at[1], at[2], at[2] + len(curves), at[2] + len(curves) + len(grid))
    return (
        b"mAB \0\0\0\0"
        + bytes([3, 3, 0, 0])
        + struct.pack(">5I", *places)
        + curves
        + matrix
        + curves
        + grid
        + curves
    )

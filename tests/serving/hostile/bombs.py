"""Small files that ask for a lot: of memory, of pixels, or of patience."""

import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from tests.serving.hostile.piece import (
    LARGE,
    READABLE,
    REFUSED,
    UNSUPPORTED,
    Hostile,
    chunk,
    encoded,
    pixels,
    png,
    riff,
    segment,
    webp_chunk,
)

JPEG, PNG, WEBP = "image/jpeg", "image/png", "image/webp"
MEGABYTE = 2**20
ROWS = zlib.compress(bytes(8 * 25))


def bombs() -> Iterator[Hostile]:
    """All of them."""
    yield from _dimensions()
    yield from _inflating()
    yield from _many_pieces()
    yield from _exif()


def _dimensions() -> Iterator[Hostile]:
    """Headers that promise more pixels than are decoded."""
    jpeg = encoded(pixels(), "JPEG")
    at = jpeg.index(b"\xff\xc0") + 5
    for width, height in ((65535, 65535), (65500, 800), (800, 65500), (7072, 7072)):
        promised = jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]
        yield Hostile(f"a JPEG of {width} x {height}", promised, JPEG, LARGE)
    for width, height in (
        (2**31 - 1, 2**31 - 1),
        (2**31 - 1, 1),
        (100_000, 100_000),
        (7072, 7072),
        (50_000_001, 1),
    ):
        yield Hostile(f"a PNG of {width} x {height}", png(width, height, chunk(b"IDAT", ROWS)), PNG, LARGE)
    for width, height in ((2**24, 1), (16384, 16384), (2**24, 2**24), (2**14, 2**17)):
        side = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
        extended = riff(webp_chunk(b"VP8X", bytes(4) + side), encoded(pixels(), "WEBP", lossless=True)[12:])
        yield Hostile(f"a WebP whose canvas is {width} x {height}", extended, WEBP, LARGE | REFUSED)
    for bits in (0x3FFF, 0x3FFF << 14, 0xFFFFFFF):
        lossless = riff(webp_chunk(b"VP8L", b"\x2f" + struct.pack("<I", bits) + bytes(40)))
        yield Hostile(f"a lossless WebP whose size is {bits:x}", lossless, WEBP, LARGE | REFUSED)
    for width, height in ((0, 0), (0, 8), (8, 0)):
        yield Hostile(f"a PNG of {width} x {height}", png(width, height, chunk(b"IDAT", ROWS)), PNG, REFUSED)
        empty = jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]
        yield Hostile(f"a JPEG of {width} x {height}", empty, JPEG, REFUSED)


def _inflating() -> Iterator[Hostile]:
    """Bytes that inflate to a thousand times as many."""
    zeros = zlib.compress(bytes(64 * MEGABYTE), 9)
    texts = {b"zTXt": b"a\0\0", b"iCCP": b"a\0\0", b"iTXt": b"a\0\1\0\0\0"}
    for kind, head in texts.items():
        allowed = READABLE | REFUSED if kind == b"iCCP" else REFUSED
        inflating = png(8, 8, chunk(kind, head + zeros), chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG whose {kind.decode()} inflates to 64 MB", inflating, PNG, allowed)
    many = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1_000_000), 9)) * 100
    yield Hostile("a PNG whose texts inflate to 100 MB", png(8, 8, many, chunk(b"IDAT", ROWS)), PNG, REFUSED)
    inflating = png(8, 8, chunk(b"IDAT", zeros))
    yield Hostile("a PNG whose pixels inflate to 64 MB", inflating, PNG, READABLE | REFUSED)
    twice = chunk(b"IDAT", zlib.compress(zeros, 9))
    yield Hostile("a PNG whose pixels inflate twice", png(8, 8, twice), PNG, READABLE | REFUSED)
    for colour, depth, size in ((2, 8, 3), (0, 16, 2), (3, 1, 1)):
        content = png(
            2000, 2000, *palette(colour), chunk(b"IDAT", zlib.compress(bytes(2000 * (2000 * size + 1)), 9)),
            colour=colour, depth=depth,
        )  # fmt: skip
        allowed = READABLE | REFUSED
        yield Hostile(
            f"a PNG of nothing, 2000 x 2000, of colour {colour} and depth {depth}", content, PNG, allowed
        )
    flat = Image.new("RGB", (3000, 3000), (200, 90, 30))
    for form, kind in (("JPEG", JPEG), ("WEBP", WEBP)):
        yield Hostile(f"a {form} of one colour, 3000 x 3000", encoded(flat, form), kind, READABLE)
    progressive = encoded(flat, "JPEG", progressive=True)
    yield Hostile("a progressive JPEG of one colour, 3000 x 3000", progressive, JPEG, READABLE)


def palette(colour: int) -> list[bytes]:
    """The palette that a PNG of this colour type needs."""
    return [chunk(b"PLTE", bytes(6))] if colour == 3 else []


def _many_pieces() -> Iterator[Hostile]:
    """More pieces than any writer makes, though no more than a decoder takes apart within its limits."""
    jpeg, pixel_data = encoded(pixels(), "JPEG"), chunk(b"IDAT", ROWS)
    number = 100_000
    floods = {"segments": b"\xff\xe5\x00\x02", "comments": b"\xff\xfe\x00\x02", "bytes of padding": b"\xff",
              "starts": b"\xff\xd8", "tables": segment(0xDB, b"\0" + b"\1" * 64)}  # fmt: skip
    for name, piece in floods.items():
        flooded = jpeg[:2] + b"\xff\xfe\x00\x02" + piece * number + jpeg[2:]
        yield Hostile(
            f"a JPEG of {number:,} {name}", flooded, JPEG, REFUSED if name == "starts" else READABLE
        )
    exif = segment(0xE1, b"Exif\0\0" + bytes(1000)) * 5000
    yield Hostile("a JPEG of 5,000 pieces of EXIF", jpeg[:2] + exif + jpeg[2:], JPEG, READABLE | LARGE)
    progressive = encoded(pixels(), "JPEG", progressive=True)
    last = progressive[progressive.rindex(b"\xff\xda") : -2]
    scanned = progressive[:-2] + last * 3000 + b"\xff\xd9"
    yield Hostile("a JPEG of 3,000 scans", scanned, JPEG, READABLE)
    for name, content in {
        "empty chunks": chunk(b"abCd") * number + pixel_data,
        "texts": chunk(b"tEXt", b"a\0b") * number + pixel_data,
        "empty pieces of pixels": pixel_data + chunk(b"IDAT") * number,
        "headers": chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) * number + pixel_data,
    }.items():
        yield Hostile(f"a PNG of {number:,} {name}", png(8, 8, content), PNG, READABLE)
    nested = webp_chunk(b"VP8 ")
    for _ in range(1000):
        nested = webp_chunk(b"ANMF", bytes(16) + nested)
    yield Hostile("a WebP of a thousand nested chunks", riff(nested), WEBP, REFUSED | UNSUPPORTED)
    sound = encoded(pixels(), "WEBP")[12:]
    flooded = riff(webp_chunk(b"VP8X", bytes(4) + b"\x17\0\0\x13\0\0"), webp_chunk(b"abcd") * number, sound)
    yield Hostile(f"a WebP of {number:,} empty chunks", flooded, WEBP, READABLE | REFUSED)


def _exif() -> Iterator[Hostile]:
    """EXIF that points to itself, to others' bytes, or nowhere; a picture is readable all the same."""
    head = b"II*\0\x08\0\0\0"

    def directory(*entries: tuple[int, int, int, int], follow: int = 0) -> bytes:
        packed = b"".join(struct.pack("<HHLL", *entry) for entry in entries)
        return head + struct.pack("<H", len(entries)) + packed + struct.pack("<L", follow)

    blocks = {
        "that is empty": b"",
        "that ends in its head": head[:5],
        "without a directory": head,
        "whose directory lies far away": b"II*\0\xff\xff\xff\x7f",
        "whose directory is its head": b"II*\0\0\0\0\0",
        "that promises 65,535 entries": head + b"\xff\xff",
        "of 5,000 entries over the same bytes": directory(*((tag, 1, 50_000, 8) for tag in range(5000))),
        "that follows itself": directory((0x0112, 3, 1, 6), follow=8),
        "whose parts are itself": directory((0x8769, 4, 1, 8), (0x8825, 4, 1, 8), (0xA005, 4, 1, 8)),
        "of 2 to the 32 values": directory((0x0112, 3, 2**32 - 1, 8)),
        "of a type that there is not": directory((0x0112, 77, 1, 6)),
        "of an orientation that there is not": directory((0x0112, 3, 1, 99)),
        "of an orientation in text": directory((0x0112, 2, 4, 0x41414141)),
        "of a fraction by nothing": directory((0x011A, 5, 1, 26), (0x0112, 3, 1, 6)),
        "of rubbish": bytes(range(256)) * 8,
        "of another order": b"MM\0*\0\0\0\x08" + b"\0\x01\x01\x12\0\x03\0\0\0\x01\0\x63\0\0\0\0\0\0",
        "of a big TIFF": b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0" + b"\xff" * 8,
    }
    for name, block in blocks.items():
        jpeg = encoded(pixels(), "JPEG")
        with_exif = jpeg[:2] + segment(0xE1, (b"Exif\0\0" + block)[:65533]) + jpeg[2:]
        yield Hostile(f"a JPEG with EXIF {name}", with_exif, JPEG, READABLE)
        inside = png(8, 8, chunk(b"eXIf", block), chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG with EXIF {name}", inside, PNG, READABLE)
        told = b"Raw profile type exif\0\nexif\n      8\n" + block.hex().encode()
        inside = png(8, 8, chunk(b"tEXt", told), chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG with text EXIF {name}", inside, PNG, READABLE)

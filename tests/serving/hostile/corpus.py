"""All hostile pictures, made by code: the same bytes each time, nothing of them kept in the repository."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from tests.serving.hostile.piece import (
    EITHER,
    LARGE,
    READABLE,
    REFUSED,
    UNSUPPORTED,
    Hostile,
    answered,
    chunk,
    encoded,
    pixels,
    png,
    riff,
    segment,
    webp_chunk,
)
from tests.serving.hostile.spoilt import spoilt

JPEG, PNG, WEBP = KINDS = ("image/jpeg", "image/png", "image/webp")
FORMS = {JPEG: "JPEG", PNG: "PNG", WEBP: "WEBP"}
MEGABYTE = 2**20
ROWS = zlib.compress(bytes(8 * 25))
NUMBER = 100_000
"""Pieces that are more than any writer makes."""


def corpus() -> list[Hostile]:
    """Every one of them."""
    parts = (
        *(spoilt, _dimensions, _inflating, _many_pieces, _exif),
        *(_swapped, _no_pictures, _both, _kinds, _profiles, _jpegs, _pngs, _webps, _animated),
    )
    return [one for part in parts for one in part()]


# Small files that ask for a lot: of memory, of pixels, or of time.


def _dimensions() -> Iterator[Hostile]:
    """Headers that promise more pixels than are decoded, or none."""
    jpeg = encoded(pixels(), "JPEG")
    at = jpeg.index(b"\xff\xc0") + 5

    def jpegs(*sizes: tuple[int, int]) -> dict[str, bytes]:
        side = [(f"a JPEG of {w} x {h}", struct.pack(">HH", h, w)) for w, h in sizes]
        return {name: jpeg[:at] + packed + jpeg[at + 4 :] for name, packed in side}

    def pngs(*sizes: tuple[int, int]) -> dict[str, bytes]:
        return {f"a PNG of {w} x {h}": png(w, h, chunk(b"IDAT", ROWS)) for w, h in sizes}

    yield from answered(JPEG, LARGE, jpegs((65535, 65535), (65500, 800), (800, 65500), (7072, 7072)))
    longest = 2**31 - 1
    large = ((longest, longest), (longest, 1), (100_000, 100_000), (7072, 7072), (50_000_001, 1))
    yield from answered(PNG, LARGE, pngs(*large))
    none = ((0, 0), (0, 8), (8, 0))
    yield from answered(PNG, REFUSED, pngs(*none))
    yield from answered(JPEG, REFUSED, jpegs(*none))
    for width, height in ((2**24, 1), (16384, 16384), (2**24, 2**24), (2**14, 2**17)):
        side = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
        extended = riff(webp_chunk(b"VP8X", bytes(4) + side), encoded(pixels(), "WEBP", lossless=True)[12:])
        yield Hostile(f"a WebP whose canvas is {width} x {height}", extended, WEBP, LARGE | REFUSED)
    for bits in (0x3FFF, 0x3FFF << 14, 0xFFFFFFF):
        lossless = riff(webp_chunk(b"VP8L", b"\x2f" + struct.pack("<I", bits) + bytes(40)))
        yield Hostile(f"a lossless WebP whose size is {bits:x}", lossless, WEBP, LARGE | REFUSED)


def _inflating() -> Iterator[Hostile]:
    """Bytes that inflate to a thousand times as many."""
    zeros = zlib.compress(bytes(64 * MEGABYTE), 9)
    for kind, head, allowed in (
        (b"zTXt", b"a\0\0", REFUSED),
        (b"iCCP", b"a\0\0", READABLE | REFUSED),
        (b"iTXt", b"a\0\1\0\0\0", REFUSED),
    ):
        inflating = png(8, 8, chunk(kind, head + zeros), chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG whose {kind.decode()} inflates to 64 MB", inflating, PNG, allowed)
    many = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1_000_000), 9)) * 100
    yield Hostile("a PNG whose texts inflate to 100 MB", png(8, 8, many, chunk(b"IDAT", ROWS)), PNG, REFUSED)
    flat = Image.new("RGB", (3000, 3000), (200, 90, 30))
    empty = {
        f"a PNG of nothing, 2000 x 2000, of colour {colour} and depth {depth}": png(
            *(2000, 2000, *([chunk(b"PLTE", bytes(6))] if colour == 3 else [])),
            chunk(b"IDAT", zlib.compress(bytes(2000 * (2000 * size + 1)), 9)),
            colour=colour,
            depth=depth,
        )
        for colour, depth, size in ((2, 8, 3), (0, 16, 2), (3, 1, 1))
    }
    pngs = {
        "a PNG whose pixels inflate to 64 MB": png(8, 8, chunk(b"IDAT", zeros)),
        "a PNG whose pixels inflate twice": png(8, 8, chunk(b"IDAT", zlib.compress(zeros, 9))),
        **empty,
    }
    yield from answered(PNG, READABLE | REFUSED, pngs)
    progressive = encoded(flat, "JPEG", progressive=True)
    yield Hostile("a JPEG of one colour, 3000 x 3000", encoded(flat, "JPEG"), JPEG, READABLE)
    yield Hostile("a WEBP of one colour, 3000 x 3000", encoded(flat, "WEBP"), WEBP, READABLE)
    yield Hostile("a progressive JPEG of one colour, 3000 x 3000", progressive, JPEG, READABLE)


def _many_pieces() -> Iterator[Hostile]:
    """More than any writer makes, though most are no more than a decoder takes apart within its limits."""
    jpeg, pixel_data = encoded(pixels(), "JPEG"), chunk(b"IDAT", ROWS)
    progressive = encoded(pixels(), "JPEG", progressive=True)
    last = progressive[progressive.rindex(b"\xff\xda") : -2]
    floods = {"segments": b"\xff\xe5\x00\x02", "comments": b"\xff\xfe\x00\x02", "bytes of padding": b"\xff",
              "tables": segment(0xDB, b"\0" + b"\1" * 64)}  # fmt: skip
    jpegs = {
        f"a JPEG of {NUMBER:,} {name}": jpeg[:2] + b"\xff\xfe\x00\x02" + piece * NUMBER + jpeg[2:]
        for name, piece in floods.items()
    }
    exif = segment(0xE1, b"Exif\0\0" + bytes(1000)) * 5000
    jpegs["a JPEG of 3,000 scans"] = progressive[:-2] + last * 3000 + b"\xff\xd9"
    yield from answered(JPEG, READABLE, jpegs)
    starts = jpeg[:2] + b"\xff\xd8" * NUMBER + jpeg[2:]
    yield Hostile(f"a JPEG of {NUMBER:,} starts", starts, JPEG, REFUSED)
    costly = jpeg[:2] + exif + jpeg[2:]
    yield Hostile("a JPEG of 5,000 pieces of EXIF", costly, JPEG, READABLE | LARGE)
    pngs = {
        "empty chunks": chunk(b"abCd") * NUMBER + pixel_data,
        "texts": chunk(b"tEXt", b"a\0b") * NUMBER + pixel_data,
        "empty pieces of pixels": pixel_data + chunk(b"IDAT") * NUMBER,
        "headers": chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) * NUMBER + pixel_data,
    }
    named = {f"a PNG of {NUMBER:,} {name}": png(8, 8, content) for name, content in pngs.items()}
    yield from answered(PNG, READABLE, named)
    nested = webp_chunk(b"VP8 ")
    for _ in range(1000):
        nested = webp_chunk(b"ANMF", bytes(16) + nested)
    yield Hostile("a WebP of a thousand nested chunks", riff(nested), WEBP, REFUSED | UNSUPPORTED)
    sound = encoded(pixels(), "WEBP")[12:]
    flooded = riff(webp_chunk(b"VP8X", bytes(4) + b"\x17\0\0\x13\0\0"), webp_chunk(b"abcd") * NUMBER, sound)
    yield Hostile(f"a WebP of {NUMBER:,} empty chunks", flooded, WEBP, READABLE | REFUSED)


def _exif() -> Iterator[Hostile]:
    """EXIF that points to itself, to others' bytes, or nowhere; a picture is readable all the same."""
    head, jpeg = b"II*\0\x08\0\0\0", encoded(pixels(), "JPEG")

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
        inside = segment(0xE1, (b"Exif\0\0" + block)[:65533])
        yield Hostile(f"a JPEG with EXIF {name}", jpeg[:2] + inside + jpeg[2:], JPEG, READABLE)
        text = b"Raw profile type exif\0\nexif\n      8\n" + block.hex().encode()
        pieces = {"EXIF": chunk(b"eXIf", block), "text EXIF": chunk(b"tEXt", text)}
        pngs = {
            f"a PNG with {how} {name}": png(8, 8, piece, chunk(b"IDAT", ROWS))
            for how, piece in pieces.items()
        }
        yield from answered(PNG, READABLE, pngs)


# Files that are something else than they say, or something besides, or a picture that no camera takes.


def _swapped() -> Iterator[Hostile]:
    """Pictures under the name of another kind."""
    for declared in (*KINDS, "image/gif", "image/svg+xml", "application/json", "text/html", "", "image/*"):
        for kind, form in FORMS.items():
            if declared != kind:
                content = encoded(pixels(), form)
                yield Hostile(f"{form} declared as {declared or 'nothing'}", content, declared, UNSUPPORTED)
    for kind in (JPEG, PNG):
        forms = ("GIF", "BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "SGI")
        others = {f"{form} declared as {kind}": encoded(pixels(), form) for form in forms}
        yield from answered(kind, UNSUPPORTED | REFUSED, others)


def _no_pictures() -> Iterator[Hostile]:
    """Bytes that are no picture, alone and behind the first bytes of one."""
    others = {
        "nothing": b"",
        "a NUL byte": b"\0",
        "zeros": bytes(5000),
        "noise": np.random.default_rng(3).bytes(5000),
        "text": b"A picture of a lesion. " * 50,
        "lines": b"\r\n" * 500,
        "a URL": b"http://127.0.0.1:9/a.jpg",
        "a file's URL": b"file:///etc/passwd",
        "a data URL": b"data:image/png;base64,iVBORw0KGgo=",
        "a page": b"<!doctype html><img src=//127.0.0.1:9>",
        "an SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "XML entities": b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        "a pickle": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
        "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run",
        "MVG": b"push graphic-context\nviewbox 0 0 9 9\nimage over 0,0 0,0 'https://127.0.0.1:9/'",
        "a program": b"\x7fELF\x02\x01\x01" + bytes(500),
        "a PDF": b"%PDF-1.7\n" + bytes(500),
        "JSON": b'{"image": "https://127.0.0.1:9/a.jpg"}',
    }
    heads = {JPEG: b"\xff\xd8\xff", PNG: b"\x89PNG\r\n\x1a\n", WEBP: b"RIFF\xff\x0f\0\0WEBP"}
    alone = {f"{name} alone": content for name, content in others.items()}
    yield from answered(JPEG, REFUSED | UNSUPPORTED, alone)
    for kind, head in heads.items():
        behind = {f"{name} behind the first bytes of {kind}": head + more for name, more in others.items()}
        yield from answered(kind, REFUSED, behind)


def _archives() -> dict[str, bytes]:
    zipped, taped = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.html"), "a")  # without the time of now
    with tarfile.open(fileobj=taped, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return {"a ZIP": zipped.getvalue(), "a tape": taped.getvalue()}


def _both() -> Iterator[Hostile]:
    """A picture and something else in one file: read as the picture that it begins as, or not at all."""
    scripts = {
        "a script": b"<script>alert(1)</script>",
        "PHP": b"<?php system(1); ?>",
        "a page": b"<!doctype html>",
    }
    pdf = b"%PDF-1.4\n"
    for kind, form in FORMS.items():
        sound = encoded(pixels(), form)
        behind = {**scripts, **_archives(), "another": sound, "noise": b"\x91" * 999}
        named = {f"{form} with {name} behind it": sound + more for name, more in behind.items()}
        yield from answered(kind, READABLE, named)
        yield Hostile(f"{form} with a line before it", b"\n" + sound, kind, REFUSED)
        yield Hostile(f"{form} with zeros before it", bytes(128) + sound, kind, REFUSED)
        yield Hostile(f"{form} with a PDF's header before it", pdf + sound, kind, UNSUPPORTED)
    jpeg, flat = encoded(pixels(), "JPEG"), encoded(pixels(), "PNG")
    for name, more in {**scripts, "a PDF's header": pdf}.items():
        inside = jpeg[:2] + segment(0xFE, more) + jpeg[2:]
        yield Hostile(f"JPEG with {name} in a comment", inside, JPEG, READABLE)
        inside = flat[:33] + chunk(b"tEXt", b"Comment\0" + more) + flat[33:]
        yield Hostile(f"PNG with {name} in a text", inside, PNG, READABLE)


def _kinds() -> Iterator[Hostile]:
    """Modes, depths and sides that are rare and really readable; colours and depths that are none."""
    adobe = encoded(pixels().convert("CMYK"), "JPEG")
    yield Hostile("a CMYK JPEG without Adobe's mark", adobe.replace(b"Adobe", b"Abode"), JPEG, EITHER)
    long = encoded(pixels(1, 60000), "JPEG")
    yield from answered(JPEG, READABLE, {"a CMYK JPEG": adobe, "a JPEG of 1 x 60000": long})
    deep = np.random.default_rng(1).integers(0, 65536, (20, 24), dtype=np.uint16)
    pngs = {
        "a PNG of 16 bits of grey": encoded(Image.fromarray(deep), "PNG"),
        "a PNG of 60000 x 1": encoded(pixels(60000, 1), "PNG"),
    }
    for mode in ("1", "L", "LA", "P", "RGBA"):
        pngs[f"a PNG of mode {mode}"] = encoded(pixels().convert(mode), "PNG")
    for colour, depth, row in (
        *((2, 16, 48), (4, 16, 32), (6, 16, 64), (6, 8, 32)),
        *((0, 1, 1), (0, 2, 2), (0, 4, 4)),
    ):
        rows = chunk(b"IDAT", zlib.compress((b"\0" + bytes(row)) * 8))
        name = f"a PNG of colour {colour} and depth {depth}"
        pngs[name] = png(8, 8, rows, colour=colour, depth=depth)
    yield from answered(PNG, READABLE, pngs)
    for colour, depth in ((2, 1), (2, 7), (3, 16), (1, 8), (5, 8), (7, 8), (255, 8), (2, 0), (2, 255)):
        content = png(8, 8, chunk(b"PLTE", bytes(6)), chunk(b"IDAT", ROWS), colour=colour, depth=depth)
        yield Hostile(f"a PNG of colour {colour} and depth {depth}, which is none", content, PNG, REFUSED)
    yield Hostile("a WebP of 1 x 1", encoded(pixels(1, 1), "WEBP"), WEBP, READABLE)


def _profiles() -> Iterator[Hostile]:
    """Colour profiles that are none."""
    lie = b"\xff\xff\xff\xff" + bytes(124)
    for name, profile in {"rubbish": b"r" * 3000, "nothing": b"\0", "a lie": lie}.items():
        for kind, form in FORMS.items():
            content = encoded(pixels(), form, icc_profile=profile)
            yield Hostile(f"{form} with a profile of {name}", content, kind, READABLE)
    jpeg = encoded(pixels(), "JPEG")
    for order in ((1, 1, 200), (0, 0, 0), (255, 255, 255), (3, 2, 1)):
        pieces = [segment(0xE2, b"ICC_PROFILE\0" + bytes([number, 9]) + b"p" * 60) for number in order]
        content = jpeg[:2] + b"".join(pieces) + jpeg[2:]
        yield Hostile(f"a JPEG with pieces {order} of a profile", content, JPEG, READABLE)


def _jpegs() -> Iterator[Hostile]:
    """Headers of JPEGs that say what cannot be."""
    jpeg = encoded(pixels(), "JPEG")
    frame = jpeg.index(b"\xff\xc0")

    def changed(name: str, at: int, *values: int) -> dict[str, bytes]:
        """The JPEG with another byte so far behind the start of its frame."""
        place = frame + at
        changes = {value: jpeg[:place] + bytes([value]) + jpeg[place + 1 :] for value in values}
        return {name.format(value): content for value, content in changes.items()}

    def without(marker: int) -> bytes:
        left, at = jpeg, 0
        while (at := left.find(bytes([0xFF, marker]))) >= 0:
            left = left[:at] + left[at + 2 + struct.unpack(">H", left[at + 2 : at + 4])[0] :]
        return left

    decoded = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)  # frames that a decoder has: noise is what it makes of them
    others = [marker for marker in range(0xC0, 0xD0) if marker not in decoded]
    lengths = {
        f"a JPEG whose first segment has the length {length}": jpeg[:2]
        + segment(0xE1, b"Exif\0\0", length)
        + jpeg[2:]
        for length in (0, 1, 65535)
    }
    either = {
        **changed("a JPEG whose frame is {:02X}", 1, *decoded),
        **changed("a JPEG sampled {:02x}", 11, 0x00, 0x10, 0x55, 0xFF, 0x44, 0x31),
        **lengths,
    }
    refused = {
        **changed("a JPEG whose frame is {:02X}", 1, *others),
        **changed("a JPEG of {} components", 9, 0, 2, 5, 255),
        **changed("a JPEG of {} bits", 4, 0, 1, 12, 16, 255),
        "a JPEG without tables": without(0xDB),
        "a JPEG without a frame": without(0xC0),
        "a JPEG that is its end": b"\xff\xd8\xff\xd9",
    }
    yield from answered(JPEG, EITHER, either)
    yield from answered(JPEG, REFUSED, refused)
    yield Hostile("a JPEG without codes", without(0xC4), JPEG, REFUSED | READABLE)


def _pngs() -> Iterator[Hostile]:
    """Chunks of PNGs that say what cannot be."""
    start, end, rows = b"\x89PNG\r\n\x1a\n", chunk(b"IEND"), chunk(b"IDAT", ROWS)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    flat = encoded(pixels(), "PNG")
    for at, method in enumerate(("compression", "filter", "interlace"), start=10):
        head = bytearray(flat[16:29])
        head[at] = 9
        changed = flat[:8] + chunk(b"IHDR", bytes(head)) + flat[33:]
        yield Hostile(f"a PNG of another {method}", changed, PNG, EITHER)
    bodies = {
        "without a header": rows,
        "without pixels": header,
        "with its pixels first": rows + header,
        "with another header behind": header + rows + header,
        "with a header that is too short": chunk(b"IHDR", bytes(5)) + rows,
        "of raw bytes": header + chunk(b"IDAT", bytes(200)),
        "of too few rows": header + chunk(b"IDAT", zlib.compress(bytes(30))),
        "of a filter that is none": header + chunk(b"IDAT", zlib.compress(b"\x09" * 200)),
        "with a palette of 300 colours": header + chunk(b"PLTE", bytes(900)) + rows,
        "with half a colour": header + chunk(b"PLTE", bytes(4)) + rows,
        "with odd transparency": header + chunk(b"tRNS", b"\1") + rows,
        "with an odd gamma": header + chunk(b"gAMA", b"") + rows,
        "with odd dots": header + chunk(b"pHYs", b"\0" * 3) + rows,
        "with a chunk that is needed and unknown": header + chunk(b"ABCD", b"x") + rows,
        "with a chunk whose name is none": header + chunk(b"\0\1\2\3", b"x") + rows,
        "with a text that is no text": header + chunk(b"iTXt", b"\xff" * 99) + rows,
        "with a wrong checksum": header + chunk(b"IDAT", ROWS, 7),
    }
    yield from answered(PNG, EITHER, {f"a PNG {name}": start + body + end for name, body in bodies.items()})


def _webps() -> Iterator[Hostile]:
    """Chunks of WebPs that say what cannot be."""
    sound = encoded(pixels(), "WEBP")[12:]
    pictures = {
        "of nothing": riff(),
        "of size 0": riff(sound, size=0),
        "of half its size": riff(sound, size=len(sound) // 2),
        "of a size beyond": riff(sound, size=2**32 - 2),
        "of alpha alone": riff(webp_chunk(b"VP8X", b"\x10" + bytes(9)), webp_chunk(b"ALPH", b"\1" * 40)),
        "of an unknown chunk": riff(webp_chunk(b"ABCD", b"x" * 40)),
        "that is not a key frame": riff(webp_chunk(b"VP8 ", b"\x31\0\0\x9d\x01\x2a" + bytes(40))),
        "of a length beyond": riff(webp_chunk(b"VP8 ", bytes(40), length=2**31)),
        "of zeros": riff(webp_chunk(b"VP8L", bytes(40))),
        "in another container": b"RIFX" + riff(sound)[4:],
        "that is a sound": riff(sound).replace(b"WEBP", b"WAVE", 1),
    }
    yield from answered(WEBP, REFUSED, {f"a WebP {name}": content for name, content in pictures.items()})


def _animated() -> Iterator[Hostile]:
    """More than one frame, or the promise of it."""
    frames = [pixels(seed=seed) for seed in range(1, 4)]
    for kind in (PNG, WEBP):
        for options in ({"duration": 50}, {"duration": 0, "loop": 3}):
            content = encoded(pixels(), FORMS[kind], save_all=True, append_images=frames, **options)
            yield Hostile(f"an animated {FORMS[kind]} {options}", content, kind, UNSUPPORTED)

    def promised(number: int, at: int = 0) -> bytes:
        control = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 8, 8, at, at, 1, 1, 0, 0))
        return png(8, 8, chunk(b"acTL", struct.pack(">II", number, 0)), control, chunk(b"IDAT", ROWS))

    numbers = (0, 1, 2, 2**31 - 1, 2**32 - 1)
    yield from answered(PNG, EITHER, {f"a PNG that promises {one} frames": promised(one) for one in numbers})
    outside = {f"a PNG whose frame lies at {at}": promised(1, at) for at in (8, 2**31 - 1)}
    yield from answered(PNG, EITHER, outside)

"""Files that are something else than they say, or something besides, or a picture that no camera takes."""

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

JPEG, PNG, WEBP = KINDS = ("image/jpeg", "image/png", "image/webp")
FORMS = {JPEG: "JPEG", PNG: "PNG", WEBP: "WEBP"}
ROWS = zlib.compress(bytes(8 * 25))


def odd() -> Iterator[Hostile]:
    """All of them."""
    yield from _swapped()
    yield from _no_pictures()
    yield from _both()
    yield from _kinds()
    yield from _headers()
    yield from _animated()


def _swapped() -> Iterator[Hostile]:
    """Pictures under the name of another kind."""
    for declared in (*KINDS, "image/gif", "image/svg+xml", "application/json", "text/html", "", "image/*"):
        for kind, form in FORMS.items():
            if declared != kind:
                content = encoded(pixels(), form)
                yield Hostile(f"{form} declared as {declared or 'nothing'}", content, declared, UNSUPPORTED)
    for form in ("GIF", "BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "SGI"):
        content = encoded(pixels(), form)
        for kind in (JPEG, PNG):
            yield Hostile(f"{form} declared as {kind}", content, kind, UNSUPPORTED | REFUSED)


def _no_pictures() -> Iterator[Hostile]:
    """Bytes that are no picture, alone and behind the first bytes of one."""
    drawn = np.random.default_rng(3)
    others = {
        "nothing": b"",
        "a NUL byte": b"\0",
        "zeros": bytes(5000),
        "noise": drawn.bytes(5000),
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
    for name, content in others.items():
        yield Hostile(f"{name} alone", content, JPEG, REFUSED | UNSUPPORTED)
    heads = {JPEG: b"\xff\xd8\xff", PNG: b"\x89PNG\r\n\x1a\n", WEBP: b"RIFF\xff\x0f\0\0WEBP"}
    for kind, head in heads.items():
        for name, content in others.items():
            yield Hostile(f"{name} behind the first bytes of {kind}", head + content, kind, REFUSED)


def _archives() -> dict[str, bytes]:
    zipped, taped = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.html", "a")
    with tarfile.open(fileobj=taped, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return {"a ZIP": zipped.getvalue(), "a tape archive": taped.getvalue()}


def _both() -> Iterator[Hostile]:
    """A picture and something else in one file: read as the picture that it begins as, or not at all."""
    scripts = {
        "a script": b"<script>alert(1)</script>",
        "PHP": b"<?php system(1); ?>",
        "a page": b"<!doctype html>",
    }
    for kind, form in FORMS.items():
        sound = encoded(pixels(), form)
        for name, more in scripts.items():
            yield Hostile(f"{form} with {name} behind it", sound + more, kind, READABLE)
        yield Hostile(f"{form} with a ZIP behind it", sound + _archives()["a ZIP"], kind, READABLE)
        yield Hostile(f"{form} with a tape behind it", sound + _archives()["a tape archive"], kind, READABLE)
        yield Hostile(f"{form} with another behind it", sound + sound, kind, READABLE)
        yield Hostile(f"{form} with noise behind it", sound + b"\x91" * 999, kind, READABLE)
        yield Hostile(f"{form} with a line before it", b"\n" + sound, kind, REFUSED)
        yield Hostile(f"{form} with zeros before it", bytes(128) + sound, kind, REFUSED)
        yield Hostile(f"{form} with a PDF's header before it", b"%PDF-1.4\n" + sound, kind, UNSUPPORTED)
    jpeg, flat = encoded(pixels(), "JPEG"), encoded(pixels(), "PNG")
    for name, more in {**scripts, "a PDF's header": b"%PDF-1.4\n"}.items():
        told = jpeg[:2] + segment(0xFE, more) + jpeg[2:]
        yield Hostile(f"JPEG with {name} in a comment", told, JPEG, READABLE)
        told = flat[:33] + chunk(b"tEXt", b"Comment\0" + more) + flat[33:]
        yield Hostile(f"PNG with {name} in a text", told, PNG, READABLE)


def _kinds() -> Iterator[Hostile]:
    """Modes, depths and structures that are rare and really readable."""
    cmyk = pixels().convert("CMYK")
    yield Hostile("a CMYK JPEG", encoded(cmyk, "JPEG"), JPEG, READABLE)
    adobe = encoded(cmyk, "JPEG")
    yield Hostile("a CMYK JPEG without Adobe's mark", adobe.replace(b"Adobe", b"Abode"), JPEG, EITHER)
    deep = np.random.default_rng(1).integers(0, 65536, (20, 24), dtype=np.uint16)
    yield Hostile("a PNG of 16 bits of grey", encoded(Image.fromarray(deep), "PNG"), PNG, READABLE)
    for mode in ("1", "L", "LA", "P", "RGBA"):
        converted = pixels().convert(mode)
        yield Hostile(f"a PNG of mode {mode}", encoded(converted, "PNG"), PNG, READABLE)
    for colour, depth, size in (
        (2, 16, 6),
        (4, 16, 4),
        (6, 16, 8),
        (0, 1, 1),
        (0, 2, 1),
        (0, 4, 1),
        (6, 8, 4),
    ):
        rows = zlib.compress((b"\0" + bytes(size * 8)) * 8 if depth >= 8 else (b"\0" + bytes(depth)) * 8)
        content = png(8, 8, chunk(b"IDAT", rows), colour=colour, depth=depth)
        yield Hostile(f"a PNG of colour {colour} and depth {depth}", content, PNG, READABLE)
    for colour, depth in ((2, 1), (2, 7), (3, 16), (1, 8), (5, 8), (7, 8), (255, 8), (2, 0), (2, 255)):
        content = png(8, 8, chunk(b"PLTE", bytes(6)), chunk(b"IDAT", ROWS), colour=colour, depth=depth)
        yield Hostile(f"a PNG of colour {colour} and depth {depth}, which is none", content, PNG, REFUSED)
    yield Hostile("a WebP of 1 x 1", encoded(pixels(1, 1), "WEBP"), WEBP, READABLE)
    yield Hostile("a JPEG of 1 x 60000", encoded(pixels(1, 60000), "JPEG"), JPEG, READABLE)
    yield Hostile("a PNG of 60000 x 1", encoded(pixels(60000, 1), "PNG"), PNG, READABLE)
    for name, profile in {
        "rubbish": b"r" * 3000,
        "nothing": b"\0",
        "a lie": b"\xff\xff\xff\xff" + bytes(124),
    }.items():
        for kind, form in FORMS.items():
            content = encoded(pixels(), form, icc_profile=profile)
            yield Hostile(f"{form} with a profile of {name}", content, kind, READABLE)
    jpeg = encoded(pixels(), "JPEG")
    for order in ((1, 1, 200), (0, 0, 0), (255, 255, 255), (3, 2, 1)):
        pieces = b"".join(
            segment(0xE2, b"ICC_PROFILE\0" + bytes([number, 9]) + b"p" * 60) for number in order
        )
        yield Hostile(
            f"a JPEG with pieces {order} of a profile", jpeg[:2] + pieces + jpeg[2:], JPEG, READABLE
        )


def _headers() -> Iterator[Hostile]:
    """Headers that say what cannot be."""
    jpeg = encoded(pixels(), "JPEG")
    frame = jpeg.index(b"\xff\xc0")
    decoded = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)  # frames that a decoder has: noise is what it makes of them
    for marker in range(0xC0, 0xD0):
        changed = jpeg[: frame + 1] + bytes([marker]) + jpeg[frame + 2 :]
        yield Hostile(
            f"a JPEG whose frame is {marker:02X}", changed, JPEG, EITHER if marker in decoded else REFUSED
        )
    for components in (0, 2, 5, 255):
        changed = jpeg[: frame + 9] + bytes([components]) + jpeg[frame + 10 :]
        yield Hostile(f"a JPEG of {components} components", changed, JPEG, REFUSED)
    for precision in (0, 1, 12, 16, 255):
        changed = jpeg[: frame + 4] + bytes([precision]) + jpeg[frame + 5 :]
        yield Hostile(f"a JPEG of {precision} bits", changed, JPEG, REFUSED)
    for sampling in (0x00, 0x10, 0x55, 0xFF, 0x44, 0x31):
        changed = jpeg[: frame + 11] + bytes([sampling]) + jpeg[frame + 12 :]
        yield Hostile(f"a JPEG sampled {sampling:02x}", changed, JPEG, EITHER)
    for name, removed in {"tables": 0xDB, "codes": 0xC4, "a frame": 0xC0}.items():
        without, at = jpeg, 0
        while (at := without.find(bytes([0xFF, removed]))) >= 0:
            without = without[:at] + without[at + 2 + struct.unpack(">H", without[at + 2 : at + 4])[0] :]
        yield Hostile(
            f"a JPEG without {name}", without, JPEG, REFUSED | READABLE if removed == 0xC4 else REFUSED
        )
    yield Hostile("a JPEG that is its end", b"\xff\xd8\xff\xd9", JPEG, REFUSED)
    for length in (0, 1, 65535):
        lies = jpeg[:2] + segment(0xE1, b"Exif\0\0", length) + jpeg[2:]
        yield Hostile(f"a JPEG whose first segment has the length {length}", lies, JPEG, EITHER)
    flat = encoded(pixels(), "PNG")
    for method in ("compression", "filter", "interlace"):
        at = 26 + ("compression", "filter", "interlace").index(method)
        head = bytearray(flat[16:29])
        head[at - 16] = 9
        changed = flat[:8] + chunk(b"IHDR", bytes(head)) + flat[33:]
        yield Hostile(f"a PNG of another {method}", changed, PNG, EITHER)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    start, rows = b"\x89PNG\r\n\x1a\n", chunk(b"IDAT", ROWS)
    for name, body in {
        "without a header": rows + chunk(b"IEND"),
        "without pixels": header + chunk(b"IEND"),
        "with its pixels first": rows + header + chunk(b"IEND"),
        "with another header behind": header + rows + header + chunk(b"IEND"),
        "with a header that is too short": chunk(b"IHDR", bytes(5)) + rows + chunk(b"IEND"),
        "of raw bytes": header + chunk(b"IDAT", bytes(200)) + chunk(b"IEND"),
        "of too few rows": header + chunk(b"IDAT", zlib.compress(bytes(30))) + chunk(b"IEND"),
        "of a filter that is none": header + chunk(b"IDAT", zlib.compress(b"\x09" * 200)) + chunk(b"IEND"),
        "with a palette of 300 colours": header + chunk(b"PLTE", bytes(900)) + rows + chunk(b"IEND"),
        "with half a colour": header + chunk(b"PLTE", bytes(4)) + rows + chunk(b"IEND"),
        "with odd transparency": header + chunk(b"tRNS", b"\1") + rows + chunk(b"IEND"),
        "with an odd gamma": header + chunk(b"gAMA", b"") + rows + chunk(b"IEND"),
        "with odd dots": header + chunk(b"pHYs", b"\0" * 3) + rows + chunk(b"IEND"),
        "with a chunk that is needed and unknown": header + chunk(b"ABCD", b"x") + rows + chunk(b"IEND"),
        "with a chunk whose name is none": header + chunk(b"\0\1\2\3", b"x") + rows + chunk(b"IEND"),
        "with a text that is no text": header + chunk(b"iTXt", b"\xff" * 99) + rows + chunk(b"IEND"),
        "with a wrong checksum": header + chunk(b"IDAT", ROWS, 7) + chunk(b"IEND"),
    }.items():
        yield Hostile(f"a PNG {name}", start + body, PNG, EITHER)
    sound = encoded(pixels(), "WEBP")[12:]
    for name, content in {
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
    }.items():
        yield Hostile(f"a WebP {name}", content, WEBP, REFUSED)


def _animated() -> Iterator[Hostile]:
    """More than one frame, or the promise of it."""
    frames = [pixels(seed=seed) for seed in range(1, 4)]
    for kind in (PNG, WEBP):
        for options in ({"duration": 50}, {"duration": 0, "loop": 3}):
            content = encoded(pixels(), FORMS[kind], save_all=True, append_images=frames, **options)
            yield Hostile(f"an animated {FORMS[kind]} {options}", content, kind, UNSUPPORTED)
    control = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 8, 8, 0, 0, 1, 1, 0, 0))
    for number in (0, 1, 2, 2**31 - 1, 2**32 - 1):
        promised = png(8, 8, chunk(b"acTL", struct.pack(">II", number, 0)), control, chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG that promises {number} frames", promised, PNG, EITHER)
    for at in (8, 2**31 - 1):
        outside = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 8, 8, at, at, 1, 1, 0, 0))
        beyond = png(8, 8, chunk(b"acTL", struct.pack(">II", 1, 0)), outside, chunk(b"IDAT", ROWS))
        yield Hostile(f"a PNG whose frame lies at {at}", beyond, PNG, EITHER)

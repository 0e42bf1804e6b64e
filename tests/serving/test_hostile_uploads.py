"""What nobody should send: every one is answered with a problem, and the service goes on."""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

# Pillow warns of EXIF that it cannot read, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

RNG = np.random.default_rng(7)
JPEG, PNG, WEBP = "image/jpeg", "image/png", "image/webp"
KINDS = {"JPEG": JPEG, "PNG": PNG, "WEBP": WEBP}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes, *chunks: bytes, depth: int = 8, colour: int = 2) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def sized(jpeg: bytes, width: int, height: int) -> bytes:
    """A JPEG whose header promises another size."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]


def canvas(webp: bytes, width: int, height: int) -> bytes:
    """A WebP whose extended header promises another canvas."""
    side = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + side + webp[12:]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("a.html", "<p>")
    return file.getvalue()


def commented(jpeg: bytes, text: bytes) -> bytes:
    """A JPEG with a comment."""
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(text) + 2) + text + jpeg[2:]


def bodies(
    picture: Callable[..., bytes], image: Callable[..., Any]
) -> Iterator[tuple[str, bytes, str, set[int]]]:
    """A name, the bytes, the type declared, and the statuses that may answer."""
    jpeg, flat, web = picture("JPEG"), picture("PNG"), picture("WEBP", lossless=True)
    bad, wrong, large = {400}, {415}, {413}
    yield "empty", b"", JPEG, bad
    for form, whole in (("JPEG", jpeg), ("PNG", flat), ("WEBP", web)):
        for share in (0.02, 0.1, 0.5, 0.9, 0.98):
            cut = whole[: max(1, int(len(whole) * share))]
            yield f"{form} cut at {share}", cut, KINDS[form], bad
        yield f"{form} of noise", whole[:24] + RNG.bytes(5000), KINDS[form], bad
    yield "JPEG without its end", jpeg[:-2] + b"\0\0", JPEG, bad | {200}
    yield "PNG of 30000 x 30000", png(30000, 30000, zlib.compress(b"\0")), PNG, large
    yield "JPEG of 65000 x 65000", sized(jpeg, 65000, 65000), JPEG, large
    yield "WebP of 16384 x 16384", canvas(web, 16384, 16384), WEBP, large
    yield "PNG that inflates", png(8, 8, zlib.compress(bytes(50_000_000), 9)), PNG, bad | {200}
    yield (
        "PNG whose text inflates",
        png(8, 8, zlib.compress(bytes(200)), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(50_000_000), 9))),
        PNG,
        bad,
    )
    yield (
        "PNG whose profile inflates",
        png(
            8, 8, zlib.compress(bytes(8 * 25)), chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(50_000_000), 9))
        ),
        PNG,
        bad | {200},
    )
    yield "PNG of no width", png(0, 5, zlib.compress(b"\0")), PNG, bad
    yield "PNG of no height", png(5, 0, zlib.compress(b"\0")), PNG, bad
    yield "JPEG of no size", sized(jpeg, 0, 0), JPEG, bad
    yield "PNG with the sum of its header wrong", flat[:29] + b"\0\0\0\0" + flat[33:], PNG, bad
    yield "PNG of a depth that is none", png(8, 8, zlib.compress(bytes(200)), depth=7), PNG, bad
    yield "PNG without data", flat[:33] + chunk(b"IEND", b""), PNG, bad
    yield "PNG declared as JPEG", flat, JPEG, wrong
    yield "JPEG declared as PNG", jpeg, PNG, wrong
    yield "WebP declared as JPEG", web, JPEG, wrong
    yield "text declared as JPEG", b"plain text", JPEG, bad
    yield "JPEG declared as text", jpeg, "text/plain", wrong
    yield "JPEG declared as nothing", jpeg, "", wrong
    yield "JPEG declared as any picture", jpeg, "image/*", wrong
    yield "JPEG declared as DICOM", jpeg, "application/dicom", wrong
    yield "JPEG declared as JSON", jpeg, "application/json", wrong
    yield "a long type", jpeg, "image/" + "j" * 5000, wrong
    yield "a form that is a query", b"image=%FF%D8%FF", "application/x-www-form-urlencoded", wrong
    for form in ("GIF", "BMP", "TIFF"):
        yield form, picture(form), JPEG, wrong
        yield f"{form} under its own name", picture(form), f"image/{form.lower()}", wrong
    yield "HEIC", b"\0\0\0\x18ftypheic" + bytes(500), JPEG, wrong
    yield "AVIF", b"\0\0\0\x18ftypavif" + bytes(500), "image/avif", wrong
    yield "DICOM", bytes(128) + b"DICM" + bytes(500), JPEG, wrong
    yield "PDF", b"%PDF-1.7\n" + bytes(500), JPEG, wrong
    yield "SVG", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", JPEG, bad
    yield "SVG under its own name", b"<svg/>", "image/svg+xml", wrong
    yield "HTML", b"<!doctype html><script>1</script>", JPEG, bad
    yield "a program", b"\x7fELF" + bytes(500), JPEG, bad
    yield "a URL", b"http://127.0.0.1:9/picture.jpg", JPEG, bad
    yield "a path", b"/etc/passwd", JPEG, bad
    yield "a pickle", b"\x80\x04\x95\x05\0\0\0\0\0\0\0\x8c\x01a\x94.", JPEG, bad
    yield "base64", b"data:image/jpeg;base64,/9j/4AAQSkZJRg==", JPEG, bad
    yield "JPEG and ZIP", jpeg + archive(), JPEG, bad
    yield "PNG and ZIP", flat + archive(), PNG, bad
    yield "PNG with a page in a text", flat[:33] + chunk(b"tEXt", b"a\0<HTML ><body>") + flat[33:], PNG, bad
    yield "PNG followed by a script", flat + b"<script>alert(1)</script>", PNG, bad
    yield "PNG followed by a far script", flat + bytes(2**20 - len(flat) - 3) + b"<ScRiPt>", PNG, bad
    yield "JPEG with a program in a comment", commented(jpeg, b"<?php system($_GET['c']); ?>"), JPEG, bad
    yield "JPEG with a page in a comment", commented(jpeg, b"<!DOCTYPE  html>"), JPEG, bad
    yield "a PDF's header before", b"%PDF-1.4\n" + jpeg, JPEG, wrong
    yield "JPEG with a PDF in a comment", commented(jpeg, b"%PDF-1.4\n"), JPEG, bad
    yield "a line before", b"\n" + jpeg, JPEG, bad
    for form in ("PNG", "WEBP"):
        frames = {"save_all": True, "append_images": [image((9, 90, 200))], "duration": 50}
        yield f"animated {form}", picture(form, **frames), KINDS[form], wrong
    yield "random bytes", RNG.bytes(20_000), JPEG, bad
    yield "zeros", bytes(20_000), PNG, bad
    yield "NUL bytes after the magic", b"\xff\xd8\xff" + bytes(20_000), JPEG, bad


def form(*parts: tuple[bytes, bytes], end: bytes = b"--B--\r\n", line: bytes = b"\r\n") -> bytes:
    """A form with the boundary B of these heads and bodies."""
    return b"".join(b"--B" + line + head + line * 2 + body + line for head, body in parts) + end


FILE = b'Content-Disposition: form-data; name="image"; filename="a.jpg"\r\nContent-Type: image/jpeg'


def field(name: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="' + name + b'"'


def forms(jpeg: bytes) -> Iterator[tuple[str, bytes, str, set[int]]]:
    """Forms, like `bodies`."""
    kind = "multipart/form-data; boundary=B"
    bad, odd = {400}, {422}
    sound = (FILE, jpeg)
    yield "no boundary", form(sound), "multipart/form-data", bad
    yield "an empty boundary", form(sound), "multipart/form-data; boundary=", bad | {422}
    yield "another boundary", form(sound), "multipart/form-data; boundary=C", bad
    yield "a long boundary", form(sound), "multipart/form-data; boundary=" + "B" * 5000, bad
    yield "an empty form", b"", kind, bad | odd
    yield "a form of nothing", b"--B--\r\n", kind, bad | odd
    yield "a form without its end", form(sound, end=b""), kind, bad | odd | {200}
    yield "a form cut in the picture", form(sound)[: len(jpeg) // 2], kind, bad | odd
    yield "a form cut in a head", form(sound)[:40], kind, bad | odd
    yield "a head without its end", b"--B\r\nContent-Disposition: form-data", kind, bad | odd
    yield "a form of bare line feeds", form(sound, line=b"\n"), kind, bad
    yield "a head that is none", form((b"nothing", jpeg)), kind, bad
    yield "a head of NUL bytes", form((b"\0\0: \0", jpeg)), kind, bad
    yield "no disposition", form((b"Content-Type: image/jpeg", jpeg)), kind, bad
    yield "no name", form((b"Content-Disposition: form-data", jpeg)), kind, bad
    yield (
        "a name in the extended form",
        form((b"Content-Disposition: form-data; name*=x''i", jpeg)),
        kind,
        bad,
    )
    yield "two files", form(sound, sound), kind, odd
    yield "two files of two names", form(sound, (FILE.replace(b"image", b"other"), jpeg)), kind, odd
    yield "nine files", form(*[sound] * 9), kind, bad
    yield "a file of another name", form((FILE.replace(b'"image"', b'"picture"'), jpeg)), kind, odd
    yield "a file of no name", form((FILE.replace(b'"image"', b'""'), jpeg)), kind, odd
    yield "a URL as the picture", form((field(b"image"), b"http://127.0.0.1:9/a.jpg")), kind, odd
    yield "a URL beside it", form(sound, (field(b"image"), b"http://127.0.0.1:9/a.jpg")), kind, odd
    yield "a URL in the file", form((FILE, b"http://127.0.0.1:9/a.jpg")), kind, bad
    yield "the picture as a field", form((field(b"image"), jpeg)), kind, odd
    yield "an empty file", form((FILE, b"")), kind, bad
    yield "a file declared as text", form((FILE.replace(b"image/jpeg", b"text/html"), jpeg)), kind, {415}
    yield "a file declared as PNG", form((FILE.replace(b"image/jpeg", b"image/png"), jpeg)), kind, {415}
    yield "a thousand fields", form(*[(field(b"f%d" % n), b"1") for n in range(1000)], sound), kind, bad
    yield "a field of two million bytes", form((field(b"model"), b"m" * 2_000_000), sound), kind, bad
    yield "a name of a million bytes", form((field(b"n" * 10**6), b"1"), sound), kind, bad | odd
    yield "a name of NUL bytes", form((field(b"\0" * 9), b"1"), sound), kind, odd
    yield "a name that is no UTF-8", form((field(b"\xff\xfe\xfd"), b"1"), sound), kind, odd
    yield "a value that is no UTF-8", form((field(b"skin_tone"), b"\xff\xfe"), sound), kind, odd
    yield "a value of NUL bytes", form((field(b"model"), b"\0" * 50), sound), kind, {404}
    for charset in ("undefined", "punycode", "idna", "utf-7", "unicode_escape", "zlib", "nothing", "utf-16"):
        for name in (b"\\ud800", b"+2AA-", b"skin_tone"):
            said = f"{kind}; charset={charset}"
            yield f"{name!r} in {charset}", form((field(name), b"+2AA-"), sound), said, bad


@pytest.fixture(scope="module")
def hostile(picture, image) -> list[tuple[str, bytes, str, set[int]]]:
    return [*bodies(picture, image), *forms(picture())]


def test_there_are_many_of_them(hostile):
    assert len({name for name, *_ in hostile}) == len(hostile) > 120


def test_each_is_answered_with_a_problem_and_the_next_picture_passes(service, problem, hostile):
    for name, content, kind, statuses in hostile:
        answer = service.diagnose(content, kind)
        assert answer.status_code in statuses, (name, answer.status_code, answer.text)
        if answer.status_code != 200:
            problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


def test_no_flipped_bit_and_no_lost_byte_of_a_header_is_a_failure(service, problem, picture):
    for kind, whole in ((JPEG, picture("JPEG")), (PNG, picture("PNG")), (WEBP, picture("WEBP"))):
        reach = min(len(whole), 700)
        for at in sorted(RNG.choice(reach, size=60, replace=False)):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << int(RNG.integers(8))
            for content in (bytes(flipped), whole[:at] + whole[at + 1 :], whole[:at]):
                answer = service.diagnose(content, kind)
                assert answer.status_code < 500, (kind, at, answer.text)
                if answer.status_code != 200:
                    problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


def test_no_byte_changed_in_a_form_is_a_failure(service, problem, picture):
    whole = form((FILE, picture("PNG", size=(8, 8))), (field(b"skin_tone"), b"5"))
    for at in sorted(RNG.choice(len(whole), size=150, replace=False)):
        changed = bytearray(whole)
        changed[at] = int(RNG.choice([0, 10, 13, 34, 42, 59, 92, 255, changed[at] ^ 32]))
        answer = service.diagnose(bytes(changed), "multipart/form-data; boundary=B")
        assert answer.status_code < 500, (at, changed[at], answer.text)
        if answer.status_code != 200:
            problem(answer, answer.status_code)
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("length", ["announced", "chunked"])
@pytest.mark.parametrize("kind", [JPEG, "multipart/form-data; boundary=B"])
def test_sixty_megabytes_are_refused(service, problem, kind, length):
    piece = bytes(2**20)
    head = form((FILE, b""), end=b"")[:-2] if kind != JPEG else b"\xff\xd8\xff"
    body = head + piece * 60 if length == "announced" else (piece if n else head for n in range(61))
    said = problem(service.diagnose(body, kind), 413)["detail"]
    assert "20,971,520 bytes" in said
    assert service.diagnose().status_code == 200


def test_an_announced_giant_is_refused_before_it_comes(service):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
    got = service.raw(head + b"Content-Length: 60000000000\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in got


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1e3", b"0x10", b"5, 6", b"9" * 5000])
def test_a_length_that_is_none_never_reaches_us(service, length):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: "
    got = service.raw(head + length + b"\r\n\r\n", end=True)
    assert got.startswith(b"HTTP/1.1 4")
    assert service.diagnose().status_code == 200


def test_a_body_that_ends_early_is_no_failure(service):
    head = b"POST /v1/diagnoses HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\n"
    got = service.raw(head + b"Content-Length: 5000\r\n\r\n\xff\xd8\xff", end=True)
    assert b"HTTP/1.1 5" not in got
    assert service.diagnose().status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
def test_a_compressed_body_is_refused_by_name(service, problem, picture, coding):
    for content in (gzip.compress(picture()), picture()):
        said = problem(service.diagnose(content, headers={"Content-Encoding": coding}), 415)["detail"]
        assert coding in said
    assert service.diagnose(headers={"Content-Encoding": "identity"}).status_code == 200
